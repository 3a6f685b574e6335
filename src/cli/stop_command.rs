//! `hertzd stop`: says what stops a daemon. Blocks on the status socket.

use super::Stop;
use super::running::process;
use super::socket::SocketArg;
use clap::Args;

#[derive(Debug, Args)]
pub(super) struct StopArgs {
    #[command(flatten)]
    socket: SocketArg,
}

/// Says which signal stops the daemon: its status socket is read-only, so this command cannot stop it.
pub(super) fn stop(args: &StopArgs) -> Result<(), Stop> {
    let pid = process(&args.socket)?;
    let service = match args.socket.is_of_service() {
        true => "`sudo systemctl stop hertzd` stops the service; ",
        false => "",
    };
    Err(Stop::Usage(format!(
        "process {pid} runs and was not stopped: {service}`kill {pid}` (SIGTERM) stops it, as root or as its user; a \
         second signal ends it at once, without a summary"
    )))
}
