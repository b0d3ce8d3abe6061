//! CHANGE_NOTIFY: waits until something happens in a directory.

use contract::rights as right;

use crate::chain::{Reply, Request};
use crate::connection::lock;
use crate::notify::Told;
use crate::status::Status;
use crate::wire::io::{NotifyRequest, output_response};

/// The kinds of changes there are.
const FILTERS: u32 = 0xFFF;

pub async fn notify(request: &Request) -> Result<Reply, Status> {
    let asked = NotifyRequest::decode(&request.message).ok_or(Status::INVALID_PARAMETER)?;
    let (open, server) = (request.open()?, &request.connection.server);
    request.pays_for(asked.output_max)?;
    if !open.is_directory || asked.filter & FILTERS == 0 {
        return Err(Status::INVALID_PARAMETER);
    }
    open.needs(right::READ_DATA)?;
    let path = open.path(server)?;
    let watch = {
        let mut watch = lock(&open.watch);
        if open.is_closed() {
            return Err(Status::FILE_CLOSED);
        }
        let (group, bytes_max) = (open.share.found.group(), asked.output_max as usize);
        let begin = || server.watches.add(group, open.file, &path, asked.is_recursive, asked.filter, bytes_max);
        watch.get_or_insert_with(begin).clone()
    };
    let message_id = request.header.message_id;
    watch.enter(message_id);
    let told = async {
        loop {
            let mut changed = std::pin::pin!(watch.changed.notified());
            // From here on nothing is missed.
            changed.as_mut().enable();
            if open.still_open(server).is_err() {
                return Told::Over;
            }
            let is_going = server.shell.open_files.is_delete_pending(open.share.found.group(), open.file);
            if let Some(told) = watch.take(message_id, asked.output_max as usize, is_going) {
                return told;
            }
            tokio::select! {
                biased;
                () = changed => {}
                () = open.closing.cancelled() => return Told::Over,
            }
        }
    };
    let told = request.wait(told).await;
    watch.leave(message_id);
    match told? {
        // Room is taken when there is something to tell: nothing may happen for days. Who takes no answers has to look for itself.
        Told::Changes(changes) => Ok(match request.connection.memory.now(changes.len()) {
            Some(room) => Reply { room: Some(room), ..Reply::of(output_response(&changes)) },
            None => look_again(),
        }),
        Told::LookAgain => Ok(look_again()),
        Told::Over if open.is_closed() || open.still_open(server).is_err() => {
            Ok(Reply { status: Status::NOTIFY_CLEANUP, ..Reply::of(output_response(&[])) })
        }
        Told::Over => Err(Status::DELETE_PENDING),
    }
}

fn look_again() -> Reply {
    Reply { status: Status::NOTIFY_ENUM_DIR, ..Reply::of(output_response(&[])) }
}
