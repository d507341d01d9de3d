//! Several futures of one kind at once, and all that they give, in order.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

/// What all of `futures` give.
pub(super) async fn join_all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut waiting: Vec<Option<Pin<Box<F>>>> =
        futures.map(|future| Some(Box::pin(future))).collect();
    let mut outputs: Vec<Option<F::Output>> = waiting.iter().map(|_| None).collect();
    poll_fn(|context| {
        let mut is_done = true;
        for (future, output) in waiting.iter_mut().zip(&mut outputs) {
            let Some(pending) = future else { continue };
            match pending.as_mut().poll(context) {
                Poll::Ready(given) => {
                    *output = Some(given);
                    *future = None;
                }
                Poll::Pending => is_done = false,
            }
        }
        if is_done { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    outputs.into_iter().map(|output| output.expect("all have ended")).collect()
}
