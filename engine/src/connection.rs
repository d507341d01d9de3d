//! The story of one connection: request after request, each parsed in place, proved, routed to its
//! story, and answered before the next is looked at.

use std::rc::Rc;

use nilas_net::head::{Method, Parsed, RequestHead, parse_head};
use nilas_net::operation::{Kind, classify};
use nilas_net::{Code, S3Error};
use nilas_shards::{Listener, Socket};

use crate::access::admit;
use crate::answer;
use crate::audit::{self, Notes};
use crate::client::{Client, NoHead, is_trusted};
use crate::get;
use crate::metrics::{Failure, Resource};
use crate::relay;
use crate::request::{Next, Request, RequestId};
use crate::shard::Shard;

/// A pause after an accept that failed (out of descriptors, say), so as not to spin.
const ACCEPT_RETRY: std::time::Duration = std::time::Duration::from_millis(10);

/// Connections over the limit that are being told so at one time; more are closed without a word.
const TURNED_AWAY_MAX: usize = 256;

/// Accepts connections until the node drains, and serves each in a task of its own.
pub async fn accept(shard: Rc<Shard>, mut listener: Listener) {
    shard.counters.ceiling(Resource::Connections, shard.settings.client.connections_max as u64);
    let turned_away = Rc::new(());
    while !shard.draining.get() {
        match listener.accept().await {
            Ok(stranger) if !is_trusted(shard.settings.proxy.as_ref(), &stranger) => {
                shard.counters.failure(Failure::ProxyHeader);
            }
            Ok(socket) if shard.connections.get() < shard.settings.client.connections_max => {
                // Counted here: a burst is accepted before the first of its tasks runs.
                shard.spawn(serve(Counted::new(&shard), socket));
            }
            Ok(one_too_many) => {
                shard.counters.failure(Failure::Overloaded);
                if Rc::strong_count(&turned_away) <= TURNED_AWAY_MAX {
                    let turning = turn_away(Rc::clone(&shard), one_too_many);
                    let place = Rc::clone(&turned_away);
                    shard.spawn(async move {
                        turning.await;
                        drop(place);
                    });
                }
            }
            Err(_) => {
                shard.counters.failure(Failure::Internal);
                shard.reactor.sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

/// Says SlowDown without waiting for the request, and gives the client a while to read it.
async fn turn_away(shard: Rc<Shard>, socket: Socket) {
    let client = Client::new(Rc::clone(&shard), socket);
    let error = S3Error::because(Code::SlowDown, TURNED_AWAY);
    if answer::refuse_unread(&shard, &client, &error).await == Next::Linger {
        client.linger().await;
    }
}

const TURNED_AWAY: &str = "Please reduce your request rate: this node has as many connections as \
    limits.connections_per_shard_max allows.";

async fn serve(counted: Counted, socket: Socket) {
    let shard = &counted.0;
    let mut client = Client::new(Rc::clone(shard), socket);
    if !client.receive_proxy_header().await {
        return;
    }
    let next = loop {
        match one_request(shard, &mut client).await {
            Next::KeepAlive if !shard.draining.get() => {}
            next => break next,
        }
    };
    if next == Next::Linger {
        client.linger().await;
    }
}

/// A connection among those of its shard.
struct Counted(Rc<Shard>);

impl Counted {
    fn new(shard: &Rc<Shard>) -> Counted {
        shard.counters.connection_opened();
        let counted = Counted(Rc::clone(shard));
        counted.set(shard.connections.get() + 1);
        counted
    }

    fn set(&self, count: usize) {
        self.0.connections.set(count);
        self.0.counters.in_use(Resource::Connections, count as u64);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.set(self.0.connections.get() - 1);
        self.0.counters.connection_closed();
    }
}

async fn one_request(shard: &Rc<Shard>, client: &mut Client) -> Next {
    let mut bytes = client.take_ahead();
    let next = loop {
        match parse_head(&bytes) {
            Ok(Parsed::Whole(head, consumed)) => {
                client.put_back(&bytes, consumed);
                break answer_head(shard, client, &head).await;
            }
            Ok(Parsed::Partial) => {}
            Err(error) => {
                shard.counters.failure(Failure::Malformed);
                break answer::refuse_unread(shard, client, &error.into()).await;
            }
        }
        match client.receive_more(&mut bytes).await {
            Ok(()) => {}
            Err(NoHead::Slow) => {
                shard.counters.failure(Failure::ClientTimeout);
                let error = S3Error::new(Code::RequestTimeout);
                break answer::refuse_unread(shard, client, &error).await;
            }
            Err(NoHead::Gone | NoHead::Idle) => break Next::Close,
        }
    };
    client.recycle(bytes);
    next
}

/// Routes a request whose head is whole.
async fn answer_head(shard: &Rc<Shard>, client: &mut Client, head: &RequestHead<'_>) -> Next {
    let started = shard.reactor.clock().now();
    let id = RequestId(shard.next_request_id());
    let mut decoded = Vec::new();
    let target = shard.settings.addressing.resolve(head.host(), head.path_raw(), &mut decoded);
    let found = target.as_ref().ok().copied();
    let admitted = target
        .map_err(S3Error::from)
        .and_then(|target| admit(shard, head, &target).map(|sender| (target, sender)));
    let (target, sender) = match admitted {
        Ok(admitted) => admitted,
        Err(error) => {
            shard.counters.failure(Failure::Refused);
            audit::note_refused(shard, client, (head, found.as_ref()), &error, id);
            let about = (head.path_raw(), head.method() == Method::Head, id);
            return answer::refuse(shard, client, &error, about, started).await;
        }
    };
    let classified = classify(head, target.bucket.is_some(), target.key.is_some());
    let notes = Notes::default();
    let request = Request { head, target, classified, sender, id, started, notes };
    if let Err(error) = authorise(&request, client) {
        shard.counters.failure(Failure::Refused);
        audit::note_refused(shard, client, (head, found.as_ref()), &error, id);
        return answer::fail(shard, client, &request, &error, Next::Linger).await;
    }
    let next = route(shard, client, &request).await;
    client.set_account(None);
    audit::note_answered(shard, client, &request);
    next
}

/// Whether its credential may do it, now.
fn authorise(request: &Request<'_>, client: &mut Client) -> Result<(), S3Error> {
    let grant = &request.sender.grant;
    grant.scope.admits(request.head, &request.target, request.classified.operation)?;
    client.set_account(grant.enter(request.started)?);
    Ok(())
}

async fn route(shard: &Rc<Shard>, client: &mut Client, request: &Request<'_>) -> Next {
    match (request.classified.kind, request.name()) {
        (Kind::ServedGet | Kind::ServedHead, Some(name)) => {
            get::serve(shard, client, request, name).await
        }
        _ => relay::relay(shard, client, request).await,
    }
}
