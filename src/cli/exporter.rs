//! `hertzd exporter`: serves the content of the daemon's status socket to Prometheus. It is a separate process, so none of its threads runs
//! in the process that runs tasks.

mod http;
mod source;

use super::socket::SocketArg;
use super::{Stop, terminal};
use crate::program;
use crate::sys::notify;
use crate::views::Format;
use clap::Args;
use http::{Answer, Server};
use source::Source;
use std::io;
use std::net::{SocketAddr, TcpListener};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    hertzd exporter                           serve http://127.0.0.1:9464/metrics\n  \
    hertzd exporter --listen '[::1]:9464'     on another address\n  \
    sudo systemctl enable --now hertzd-exporter\n\n\
    Serves the text format of Prometheus, and OpenMetrics to a scraper that asks \
    for it. While no daemon answers, hertzd_up is 0 and there are no other \
    numbers. docs/monitoring has a dashboard and alert rules. It runs until a \
    signal ends it.")]
pub(super) struct ExporterArgs {
    #[command(flatten)]
    socket: SocketArg,
    /// The address to listen at; port 0: any that is free
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9464")]
    listen: SocketAddr,
}

const INDEX: &str = "<!doctype html><title>hertzd</title><p><a href=\"/metrics\">Metrics</a> of hertzd\n";

pub(super) fn exporter(args: &ExporterArgs) -> Result<(), Stop> {
    let failed = |reason: io::Error| {
        let (address, text) = (args.listen, "choose another address with --listen");
        match reason.kind() {
            io::ErrorKind::PermissionDenied => {
                Stop::Permission(format!("cannot listen at {address}: {reason}; {text}"))
            }
            _ => Stop::Fault(format!("cannot listen at {address}: {reason}; {text}")),
        }
    };
    let listener = TcpListener::bind(args.listen).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let source = Source::new(args.socket.path().to_owned(), say).map_err(|reason| Stop::Fault(reason.to_string()))?;
    let serves = format!("serves http://{address}/metrics from {}", args.socket.path().display());
    say(&serves);
    notify::ready(&serves);
    Server::new(move |path, accept| match path {
        "/metrics" => {
            let format = if accept.prefers("application/openmetrics-text", "text/plain") {
                Format::OpenMetrics
            } else {
                Format::Text
            };
            Answer::Page { kind: format.content_type(), body: source.page(format) }
        }
        "/" => Answer::Page { kind: "text/html; charset=utf-8", body: INDEX.into() },
        _ => Answer::NotFound,
    })
    .run(&listener)
}

/// Prints a line on stderr, which ends up in the unit's journal.
fn say(line: &str) {
    terminal::say(&format!("{} exporter: {line}", program::name()));
}
