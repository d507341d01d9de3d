//! Two futures of one task, or some, side by side.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;

/// Runs both to their ends; the second is dropped as soon as the first has failed.
pub async fn both_unless_failed<A, E, B>(
    first: impl Future<Output = Result<A, E>>,
    second: impl Future<Output = B>,
) -> Result<(A, B), E> {
    let (mut first, mut second) = (pin!(first), pin!(second));
    let (mut first_output, mut second_output) = (None, None);
    poll_fn(move |context| {
        if first_output.is_none()
            && let Poll::Ready(output) = first.as_mut().poll(context)
        {
            match output {
                Ok(output) => first_output = Some(output),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        if second_output.is_none()
            && let Poll::Ready(output) = second.as_mut().poll(context)
        {
            second_output = Some(output);
        }
        match (first_output.take(), second_output.take()) {
            (Some(first), Some(second)) => Poll::Ready(Ok((first, second))),
            (first, second) => {
                (first_output, second_output) = (first, second);
                Poll::Pending
            }
        }
    })
    .await
}

/// Runs some to their ends, and gives what each gave, in their order.
pub async fn all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<Pin<Box<F>>> = futures.into_iter().map(Box::pin).collect();
    let mut outputs: Vec<Option<F::Output>> = running.iter().map(|_| None).collect();
    poll_fn(|context| {
        let mut is_ready = true;
        for (future, output) in running.iter_mut().zip(&mut outputs) {
            if output.is_none() {
                match future.as_mut().poll(context) {
                    Poll::Ready(value) => *output = Some(value),
                    Poll::Pending => is_ready = false,
                }
            }
        }
        if is_ready { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    outputs.into_iter().flatten().collect()
}
