//! Claims about the mailboxes between shards.

use crate::stage::Stage;
use nilas_base::ShardId;
use nilas_shards::{CALLS_IN_FLIGHT_MAX, Delivered, Exchange, Reactor};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

#[derive(Debug)]
struct Sum {
    terms: [u64; 2],
    sum: Option<u64>,
}

fn question(one: u64, other: u64) -> Box<Sum> {
    Box::new(Sum { terms: [one, other], sum: None })
}

fn add(mut delivered: Delivered<Sum>) {
    delivered.sum = Some(delivered.terms.iter().sum());
    delivered.reply();
}

fn exchanges<const N: usize>(stage: &Stage) -> [(Reactor, Exchange<Sum>); N] {
    let mut seats = Exchange::mesh(N).into_iter();
    std::array::from_fn(|_| {
        let reactor = stage.reactor();
        let exchange = seats.next().expect("one a shard").sit(&reactor);
        (reactor, exchange)
    })
}

pub(crate) fn calls_to_oneself_are_answered(stage: &Stage) {
    let [(_reactor, exchange)] = exchanges(stage);
    exchange.serve(add);
    stage.block_on(async {
        for number in 0..1000 {
            let answer = exchange.call(exchange.me(), question(number, 1)).await;
            assert_eq!(answer.sum, Some(number + 1));
        }
    });
}

pub(crate) fn shards_answer_each_other(stage: &Stage) {
    let shards: [_; 3] = exchanges(stage);
    shards.iter().for_each(|(_, exchange)| exchange.serve(add));
    let answered = Rc::new(Cell::new(0));
    let each = 4 * CALLS_IN_FLIGHT_MAX as u64;
    for (reactor, exchange) in &shards {
        for number in 0..each {
            let (exchange, answered) = (exchange.clone(), Rc::clone(&answered));
            let to = ShardId((number % 3) as u16);
            reactor.spawn(async move {
                let answer = exchange.call(to, question(number, 5)).await;
                assert_eq!(answer.sum, Some(number + 5));
                answered.set(answered.get() + 1);
            });
        }
    }
    stage.until(&shards[0].0, || answered.get() == 3 * each);
}

pub(crate) fn a_full_mailbox_waits_in_order(stage: &Stage) {
    let [(caller, calling), (_callee, serving)] = exchanges(stage);
    let held = Rc::new(RefCell::new(Vec::new()));
    let peak = Rc::new(Cell::new(0));
    serving.serve({
        let (held, peak) = (Rc::clone(&held), Rc::clone(&peak));
        move |delivered| {
            held.borrow_mut().push(delivered);
            peak.set(peak.get().max(held.borrow().len()));
        }
    });
    let calls = 3 * CALLS_IN_FLIGHT_MAX as u64;
    let order = Rc::new(RefCell::new(Vec::new()));
    for number in 0..calls {
        let (calling, order) = (calling.clone(), Rc::clone(&order));
        caller.spawn(async move {
            calling.call(ShardId(1), question(number, 0)).await;
            order.borrow_mut().push(number);
        });
    }
    stage.until(&caller, || held.borrow().len() == CALLS_IN_FLIGHT_MAX);
    while order.borrow().len() < calls as usize {
        let answered = order.borrow().len();
        held.borrow_mut().drain(..).for_each(add);
        stage.until(&caller, || order.borrow().len() > answered);
    }
    assert_eq!(peak.get(), CALLS_IN_FLIGHT_MAX);
    assert_eq!(*order.borrow(), (0..calls).collect::<Vec<_>>());
}

pub(crate) fn a_dropped_call_gives_its_place_back(stage: &Stage) {
    let [(caller, calling), (_callee, serving)] = exchanges(stage);
    let held = Rc::new(RefCell::new(Vec::new()));
    serving.serve({
        let held = Rc::clone(&held);
        move |delivered| held.borrow_mut().push(delivered)
    });
    stage.block_on(async {
        let short = Duration::from_millis(2);
        // Twice as many as there are places: half of them are dropped while they wait for one.
        let calls: Vec<_> = (0..2 * CALLS_IN_FLIGHT_MAX)
            .map(|_| Box::pin(calling.call(ShardId(1), question(1, 1))))
            .collect();
        for mut call in calls {
            let _ = caller.timeout(Duration::ZERO, call.as_mut()).await;
        }
        caller.sleep(short).await;
        held.borrow_mut().drain(..).for_each(add);
        caller.sleep(short).await;
    });
    serving.serve(add);
    stage.block_on(async {
        for number in 0..3 * CALLS_IN_FLIGHT_MAX as u64 {
            let answer = calling.call(ShardId(1), question(number, 2)).await;
            assert_eq!(answer.sum, Some(number + 2));
        }
    });
}
