//! An open CAN interface: the socket, and the frames still under way. Opening may block; for cool threads.

use super::interface::NamedBus;
use crate::site::{OpenDevice, Refusal};
use crate::sys::can::{Id, Interface, Socket, Wanted};
use crate::time::Span;
use std::io;

/// The interface, and how it is used.
#[derive(Clone, Debug)]
pub(super) struct BusSettings {
    pub(super) interface: String,
    pub(super) fd: bool,
}

/// What a task uses the interface for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Receive,
    Send,
}

/// An interface that is up.
#[derive(Debug)]
pub(super) struct Bus {
    pub(super) socket: Socket,
    /// True until the first tick with this socket.
    pub(super) fresh: bool,
    /// Frames that its queue had no room for, modulo 2³².
    dropped: u32,
    /// A tick that takes fewer frames than this cannot have lost any.
    pub(super) fills: usize,
    /// For each frame that the task sends: how long it has been under way; `None`: it is not.
    pub(super) under_way: Box<[Option<Span>]>,
}

impl OpenDevice for Bus {}

impl Bus {
    /// Opens the interface of the section; `bus` finds that interface again after each loss. `accept` may still refuse it.
    pub(super) fn open(
        settings: &BusSettings,
        bus: &NamedBus,
        ids: &[Id],
        purpose: Purpose,
        accept: impl FnOnce(&Interface) -> Result<(), Refusal>,
    ) -> Result<Self, Refusal> {
        let BusSettings { interface: name, fd } = settings;
        let refuse = |message: String| Refusal::new("interface", message);
        let socket = Socket::new().map_err(|error| refuse(no_socket(&error)))?;
        let interface = bus.find(&socket).map_err(|error| match error.raw_os_error() {
            Some(libc::ENODEV) => refuse(format!("there is no interface {name}; `hertzd devices` lists those of CAN")),
            Some(_) => refuse(format!("cannot ask for the interface {name}: {error}")),
            None => refuse(format!("{error}; to have this one, restart hertzd")),
        })?;
        let name = &interface.name;
        if *fd && !interface.fd {
            let message = format!("{name} takes no frames of CAN FD: set it up with `fd on`, or remove fd");
            return Err(Refusal::new("fd", message));
        }
        let receives = purpose == Purpose::Receive;
        let wanted = Wanted { ids, errors: receives, own: !receives, fd: *fd };
        socket.bind(&interface, wanted).map_err(|error| match error.raw_os_error() {
            Some(libc::ENODEV) => refuse(format!("{name} is no CAN interface; `hertzd devices` lists those")),
            _ => refuse(format!("cannot use the interface {name}: {error}")),
        })?;
        if !interface.is_up {
            let remedy = format!("bring it up with `ip link set {name} up`, a real one after `type can bitrate BITS`");
            return Err(refuse(format!("the interface {name} is down: {remedy}")));
        }
        accept(&interface)?;
        bus.is_now(&interface);
        Ok(Self::new(socket, if receives { 0 } else { ids.len() }))
    }

    /// A bus to which this many frames are sent.
    pub(super) fn new(socket: Socket, sent: usize) -> Self {
        // If the kernel does not say, each tick asks for dropped frames and reports the failure.
        let fills = socket.fewest_that_fill().unwrap_or(0);
        Self { socket, fresh: true, dropped: 0, fills, under_way: vec![None; sent].into() }
    }

    /// How many frames were dropped since the last call because the queue was full.
    pub(super) fn newly_dropped(&mut self) -> io::Result<u32> {
        let dropped = self.socket.dropped()?;
        Ok(dropped.wrapping_sub(std::mem::replace(&mut self.dropped, dropped)))
    }
}

/// Whether the error means that the interface is down or gone, and has to be reopened.
pub(super) fn is_lost(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENETDOWN | libc::ENODEV | libc::ENXIO | libc::EBADF))
}

fn no_socket(error: &io::Error) -> String {
    let remedy = match error.raw_os_error() {
        Some(libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT) => {
            "; the module can-raw is missing (`modprobe can-raw`), or the unit does not allow AF_CAN (RestrictAddressFamilies=)"
        }
        _ => "",
    };
    format!("cannot make a CAN socket: {error}{remedy}")
}
