//! Claims about timers.

use crate::stage::Stage;
use nilas_shards::Elapsed;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

pub(crate) fn timers_fire_in_order(stage: &Stage) {
    let reactor = stage.reactor();
    let fired = Rc::new(RefCell::new(Vec::new()));
    for ms in [7, 3, 9, 1, 5] {
        let (clock, fired) = (reactor.clone(), Rc::clone(&fired));
        reactor.spawn(async move {
            clock.sleep(Duration::from_millis(ms)).await;
            fired.borrow_mut().push(ms);
        });
    }
    let begin = reactor.clock().now();
    stage.block_on(reactor.sleep(Duration::from_millis(20)));
    assert!(reactor.clock().now().since(begin) >= Duration::from_millis(20));
    assert_eq!(*fired.borrow(), [1, 3, 5, 7, 9]);
}

pub(crate) fn a_timeout_ends_what_takes_too_long(stage: &Stage) {
    let reactor = stage.reactor();
    let (short, long) = (Duration::from_millis(2), Duration::from_secs(3600));
    stage.block_on(async {
        assert_eq!(reactor.timeout(short, reactor.sleep(long)).await, Err(Elapsed));
        assert_eq!(reactor.timeout(long, reactor.sleep(short)).await, Ok(()));
        assert_eq!(reactor.timeout(long, async { 5 }).await, Ok(5));
    });
}

pub(crate) fn many_timers_leave_nothing_behind(stage: &Stage) {
    let reactor = stage.reactor();
    stage.block_on(async {
        for _ in 0..10_000 {
            let moment = reactor.timeout(Duration::from_secs(60), std::future::pending::<()>());
            let _ = reactor.timeout(Duration::ZERO, moment).await;
        }
    });
    assert_eq!(reactor.timer_count(), 0);
}
