//! Two futures of one task, side by side.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// Runs both to their ends.
pub async fn both<A: Future, B: Future>(first: A, second: B) -> (A::Output, B::Output) {
    let (mut first, mut second) = (pin!(first), pin!(second));
    let (mut first_output, mut second_output) = (None, None);
    poll_fn(move |context| {
        if first_output.is_none()
            && let Poll::Ready(output) = first.as_mut().poll(context)
        {
            first_output = Some(output);
        }
        if second_output.is_none()
            && let Poll::Ready(output) = second.as_mut().poll(context)
        {
            second_output = Some(output);
        }
        match (first_output.take(), second_output.take()) {
            (Some(first), Some(second)) => Poll::Ready((first, second)),
            (first, second) => {
                (first_output, second_output) = (first, second);
                Poll::Pending
            }
        }
    })
    .await
}
