//! The stream to a service: a separate gRPC call through the same pools. It outlives the exchange until the service ends it.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll};

use fairway_connection::sides::{BodyStep, Failure};
use fairway_extension::processing::PROCESS_PATH;
use fairway_http::grpc::Dialect;
use fairway_http::{BodySize, Head};
use fairway_routing::ExtensionStep;

use super::pipe::{PipeState, Stream};
use crate::exchange::environment::{Environment, Exchange};
use crate::exchange::subrequest::{self, Sink, Subrequest, SubrequestHandler};
use crate::fault::Fault;
use crate::grpc::{dialect_of, status_of};
use crate::network::Network;
use crate::peer::Peer;

/// Creates the call. Nothing is sent before it is polled.
pub(super) fn open<N: Network, D>(
    exchange: &Exchange<'_, '_, N, D>,
    extending: &ExtensionStep,
    shared: &Rc<RefCell<PipeState>>,
) -> Result<Stream, Fault> {
    let Exchange { env, client_side, .. } = exchange;
    let mut subrequest = env.worker.lend_buffers();
    let authority = &extending.prepared.extension().service.authority;
    let intake = subrequest::begin_grpc_call(&mut subrequest, authority, PROCESS_PATH)?;
    let (worker, adopted, client) = (Rc::clone(env.worker), Rc::clone(env.adopted), env.client);
    let rule = extending.rule.clone();
    // It may outlive the connection, and must not keep its place among those of its listener.
    let peer = Peer { details: None, ..client_side.peer };
    let shared = Rc::clone(shared);
    Ok(Box::pin(async move {
        let outer = Environment::for_rule(&worker, &adopted, &rule, intake.clone(), client);
        let service_request = Subrequest { rule: &rule, intake, client, buffers: &mut subrequest };
        let mut side =
            ServiceSide { shared: Rc::clone(&shared), is_grpc: false, status: None, is_over: false };
        let run = subrequest::run(&outer, peer, service_request, &mut side).await;
        let status = side.status.filter(|_| run.is_ok() && side.is_grpc && side.is_over);
        shared.borrow_mut().service_closed(status);
    }))
}

/// The client's side of the call.
struct ServiceSide {
    shared: Rc<RefCell<PipeState>>,
    is_grpc: bool,
    status: Option<u32>,
    is_over: bool,
}

impl SubrequestHandler for ServiceSide {
    fn poll_body(&mut self, cx: &mut Context<'_>, sink: &mut Sink<'_>) -> Poll<Result<BodyStep, Failure>> {
        let mut shared = self.shared.borrow_mut();
        match shared.take_message() {
            Some(message) => {
                drop(shared);
                Poll::Ready(sink(cx, &message).map(|()| BodyStep::More))
            }
            None if shared.is_finished() => Poll::Ready(Ok(BodyStep::End)),
            None => Poll::Pending,
        }
    }

    fn is_read(&self) -> bool {
        self.shared.borrow().is_finished()
    }

    fn head(&mut self, head: &Head, _: BodySize) {
        self.is_grpc = head.status() == 200 && dialect_of(head) == Dialect::Native;
        // A response without messages has its trailers in the head.
        self.status = status_of(head.fields().map(|field| (field.name, field.value)));
    }

    fn poll_room(&mut self, _: &mut Context<'_>) -> Poll<Result<usize, Failure>> {
        match self.shared.borrow().takes_from_service() {
            true => Poll::Ready(Ok(usize::MAX)),
            false => Poll::Pending,
        }
    }

    fn receive(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if !self.is_grpc {
            return Err(Failure::Refused);
        }
        self.shared.borrow_mut().receive_from_service(bytes);
        Ok(())
    }

    fn end<'t>(&mut self, trailers: &mut dyn Iterator<Item = (&'t [u8], &'t [u8])>) {
        self.is_over = true;
        self.status = status_of(trailers).or(self.status);
    }

    fn poll_gone(&mut self, _: &mut Context<'_>) -> Poll<()> {
        // The owner of the call drops it instead.
        Poll::Pending
    }
}
