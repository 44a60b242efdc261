//! `dev` and `serve`: a node in the foreground.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anabranch_log::Kind;
use anabranch_node::Options;
use anabranch_server::ServeError;
use serde_json::json;

use super::Context;
use crate::args::{Dev, Serve};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::local;
use crate::settings::Place;

const DEV_DIR: &str = "anabranch-data";

pub(crate) fn dev(context: &Context, args: Dev) -> Outcome {
    let dir = match &context.settings.place {
        Place::Dir(dir) => dir.clone(),
        Place::Addr(_) => PathBuf::from(DEV_DIR),
    };
    let options = Options { create: true, name: args.space, ..Options::default() };
    let hints = |addr: SocketAddr| {
        let other = if addr.to_string() == anabranch_api::DEFAULT_ADDR {
            String::new()
        } else {
            format!("  export ANABRANCH_ADDR={addr}\n")
        };
        format!(
            "\nTry, in another terminal:\n{other}\
             \x20 anabranch append orders '{{\"id\":1}}'\n\
             \x20 anabranch sql 'CREATE TABLE note(body TEXT)'\n\
             \x20 anabranch fork agent-7\n\
             \x20 anabranch sql -b agent-7 \"INSERT INTO note VALUES ('from the fork')\"\n\
             \x20 anabranch diff agent-7\n\
             \x20 anabranch promote agent-7\n\
             \nCtrl-C ends this node; the data stays."
        )
    };
    run(context, &dir, options, (args.listen, &hints))
}

pub(crate) fn serve(context: &Context, args: Serve) -> Outcome {
    let Place::Dir(dir) = &context.settings.place else {
        return Err(Failure::usage("no directory to serve", "name it with --dir"));
    };
    let options = Options {
        create: args.create,
        name: args.space,
        accept_loss: args.accept_loss,
        ..Options::default()
    };
    run(context, dir, options, (args.listen, &|_| String::new()))
}

fn run(
    context: &Context,
    dir: &Path,
    options: Options,
    (listen, hints): (SocketAddr, &dyn Fn(SocketAddr) -> String),
) -> Outcome {
    let runtime = local::runtime(2)?;
    // Before the space: a port in use must not cost a recovery.
    let listener = local::listen(&runtime, listen)?;
    let addr = listener.local_addr()?;
    let space = local::open(dir, options)?;
    let printer = &context.printer;
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let name = space.name().to_owned();
    printer.answer(
        &json!({ "space": name, "address": addr.to_string(), "dir": dir }),
        &format!("space {name} at http://{addr}, in {}", dir.display()),
    )?;
    printer.flush()?;
    let hints = hints(addr);
    if !hints.is_empty() && !printer.is_json() {
        printer.note(&hints);
    }
    // Enter the runtime first: signals are caught from here on.
    let served = runtime.block_on(async {
        let interrupted = interrupted().map_err(ServeError::Io)?;
        anabranch_server::serve(space, listener, interrupted).await
    });
    served.map_err(|error| Failure::local(Kind::Unavailable, error.to_string()))?;
    drop(runtime);
    if !printer.is_json() {
        printer.note("stopped");
    }
    Ok(Exit::Done)
}

/// Completes at Ctrl-C, or when the system asks the process to end.
fn interrupted() -> std::io::Result<impl Future<Output = ()> + Send + 'static> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        Ok(async move {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        })
    }
    #[cfg(not(unix))]
    Ok(async {
        let _ = tokio::signal::ctrl_c().await;
    })
}
