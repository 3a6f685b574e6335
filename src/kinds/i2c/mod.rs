//! The kind `i2c`: registers of a chip on an I²C bus, read at every tick.
//!
//! A tick makes one system call to check that the bus is still there. Then it makes one combined transfer for up to 21 pieces, or one SMBus
//! transfer per piece if the adapter supports nothing else. It blocks for as long as the bus takes, and allocates nothing: buffers are made
//! when the chip is opened, off the hot thread. No clock is read.

mod bus;
mod keys;
mod list;
mod reading;
mod register;
mod written;

pub(super) use keys::kind;
pub(super) use list::list;
pub(super) use written::{OpenRegister, WrittenRegister};

use crate::config::{BuildError, Preview};
use crate::kinds::device::{Missing, Reconnecting, Sight, access, hidden, preview};
use crate::site::{Label, OpenDevice, Refusal, Site};
use crate::sys::i2c::{self, Functions};
use crate::task::{Column, Reason, Task, Tick, TickError};
use bus::Bus;
use reading::Reading;
use register::{ReadPlan, Register};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a task of this kind reads, and how.
#[derive(Clone, Debug)]
struct ChipSettings {
    bus: Bus,
    address: u8,
    force: bool,
    auto_increment: bool,
    init: Vec<Vec<u8>>,
    values: Vec<Register>,
}

impl ChipSettings {
    fn node(&self) -> Result<PathBuf, String> {
        self.bus.node(Path::new("/sys"), Path::new("/dev"))
    }
}

fn columns(values: &[Register]) -> Vec<Column> {
    values.iter().map(|value| Column { name: value.name.clone(), unit: value.unit.clone() }).collect()
}

/// A task that reads registers of a chip.
struct I2c {
    chip: Reconnecting<Chip>,
    values: Vec<Register>,
}

impl I2c {
    fn open(site: &Site, label: Label, settings: ChipSettings, missing: Missing) -> Result<Self, BuildError> {
        let values = settings.values.clone();
        let open = move || Chip::open(&settings).map_err(|message| Refusal::new("bus", message));
        Ok(Self { chip: Reconnecting::open(site, label, missing, open)?, values })
    }

    /// Previews `open`.
    fn look(site: &Site, label: &Label, settings: &ChipSettings, missing: Missing) -> Result<Preview, BuildError> {
        let looked = Chip::look(settings).map_err(|message| Refusal::new("bus", message));
        let columns = Some(columns(&settings.values));
        Ok(Preview { columns, may_freeze: true, ..preview(site, label, missing, looked)? })
    }
}

impl Task for I2c {
    fn columns(&self) -> Vec<Column> {
        columns(&self.values)
    }

    fn tick(&mut self, tick: &Tick, values: &mut [f64]) -> Result<(), TickError> {
        self.chip.with(FAILED, tick.period, Chip::read)?;
        report(&self.chip.device()?.reading, &self.values, values)
    }
}

const FAILED: &str = "cannot read the chip";

/// Passes the values of a reading on. The error is that of the first one that could not be read.
fn report(reading: &Reading, registers: &[Register], values: &mut [f64]) -> Result<(), TickError> {
    let mut done = Ok(());
    for (column, (slot, register)) in values.iter_mut().zip(registers).enumerate() {
        match reading.value(column) {
            Ok(bytes) => *slot = register.value(bytes),
            Err(error) => {
                *slot = Reason::Failed.value_of(&error);
                done = done.and_then(|()| Err(TickError::from_io(FAILED, &error).of_value(column)));
            }
        }
    }
    done
}

/// An open chip: how to read it, and the last reading.
struct Chip {
    bus: Arc<File>,
    address: u8,
    combined: bool,
    reading: Reading,
}

impl OpenDevice for Chip {}

impl Chip {
    fn open(settings: &ChipSettings) -> Result<Self, String> {
        let path = settings.node()?;
        let shown = path.display();
        let mut chip = Self::choose(settings, &path)?;
        for bytes in &settings.init {
            chip.write(bytes).map_err(|error| chip.refused("write init to", &shown, &error))?;
        }
        // A bus opens without its chip; only a read shows whether one answers.
        chip.read().map_err(|error| chip.refused("read", &shown, &error))?;
        Ok(chip)
    }

    /// Previews [`open`](Self::open); sends nothing over the bus.
    fn look(settings: &ChipSettings) -> Result<Sight, String> {
        let path = settings.node()?;
        if let Some(hidden) = hidden(&path, true) {
            return Ok(hidden);
        }
        Self::choose(settings, &path)?;
        let unknown = format!("whether a chip answers at {:#04x} on {}", settings.address, path.display());
        Ok(Sight::default().unknown(unknown))
    }

    /// Opens the bus, and plans how to read the chip.
    fn choose(settings: &ChipSettings, path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let bus = access::open(path).map_err(|reason| match path.exists() {
            true => reason,
            false => format!("{reason}; is the module i2c-dev loaded (`modprobe i2c-dev`)?"),
        })?;
        let functions = i2c::functions(&bus).map_err(|error| format!("{shown} is no I²C bus: {error}"))?;
        let address = settings.address;
        i2c::set_address(&bus, address, settings.force).map_err(|error| match error.raw_os_error() {
            Some(libc::EBUSY) => format!(
                "a driver of the kernel has address {address:#04x} on {shown}: read it through that, with kind = \
                 \"sensor\" and hwmon = \"NAME\" or iio = \"NAME\" (`hertzd devices` lists them), or override this with \
                 force-address = true"
            ),
            _ => format!("cannot choose address {address:#04x} on {shown}: {error}"),
        })?;
        let plan = ReadPlan::new(&settings.values, settings.auto_increment, functions)
            .map_err(|reason| format!("{shown}: {reason}"))?;
        let combined = functions.has(Functions::I2C);
        let reading = Reading::new(plan, &settings.values, combined);
        Ok(Self { bus: Arc::new(bus), address, combined, reading })
    }

    fn refused(&self, what: &str, bus: &dyn std::fmt::Display, error: &io::Error) -> String {
        let why = match error.raw_os_error() {
            Some(libc::ENXIO | libc::EREMOTEIO | libc::ENODEV) => {
                "; does a chip answer there? `i2cdetect -y BUS` from i2c-tools shows which do"
            }
            _ => "",
        };
        format!("cannot {what} the chip at {:#04x} on {bus}: {error}{why}", self.address)
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        match self.combined {
            true => (&*self.bus).write_all(bytes),
            false => i2c::write_smbus(&self.bus, bytes),
        }
    }

    /// Reads all values, as far as they can be read. An error means that none could.
    fn read(&mut self) -> io::Result<()> {
        if self.bus.metadata()?.nlink() == 0 {
            // The device file is gone: the adapter is being removed, which waits until this end closes the bus.
            return Err(io::Error::from_raw_os_error(libc::ESTALE));
        }
        let Self { bus, address, combined, reading } = self;
        reading.fill(|pieces, buffer| match combined {
            true => i2c::read_combined(bus, *address, pieces, buffer),
            false => pieces.iter().try_for_each(|piece| i2c::read_smbus(bus, piece, buffer)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channels::{Basis, NONE};
    use crate::kinds::layout::TYPES;
    use crate::sys::emulation::{NO_IOCTL, cannot_be_emulated};

    #[test]
    fn the_other_values_stay_good() {
        use crate::task::Quality;
        let register = |register| {
            let (name, unit) = (format!("r{register}"), String::new());
            Register { register, layout: TYPES[0].1, scale: 2.0, offset: 0.0, name, unit }
        };
        let values = [1, 2, 3].map(register);
        let plan = ReadPlan::new(&values, false, Functions(Functions::READ_BYTE_DATA)).unwrap();
        let mut reading = Reading::new(plan, &values, false);
        let mut transfer = |failing: u8| {
            let filled = reading.fill(|pieces, buffer| {
                buffer[pieces[0].at] = pieces[0].register;
                if pieces[0].register >= failing { Err(io::Error::from_raw_os_error(libc::ENXIO)) } else { Ok(()) }
            });
            let mut row = [NONE; 3];
            filled.unwrap();
            (report(&reading, &values, &mut row), row)
        };
        let (done, row) = transfer(2);
        let names = ["r1", "r2", "r3"].map(str::to_owned);
        assert!(done.unwrap_err().text(&names).starts_with("r2: cannot read the chip: No such device or address"));
        let bad = Quality::Bad(Reason::Failed);
        assert_eq!(row.map(|value| Quality::of(value, Basis::Good, None)), [Quality::Good, bad, bad]);
        assert_eq!(crate::channels::errno_of(row[1]), Some(libc::ENXIO));
        assert_eq!(transfer(4), (Ok(()), [2.0, 4.0, 6.0]));
    }

    #[test]
    fn a_node_that_is_no_bus_is_refused() {
        let refused = |bus| {
            let (init, values) = (Vec::new(), Vec::new());
            let settings = ChipSettings { bus, address: 0x48, force: false, auto_increment: false, init, values };
            I2c::open(&Site::default(), Label::new("chip", "test"), settings, Missing::Refuse).err().unwrap().message
        };
        let gone = refused(Bus::Path("/nonexistent/i2c-1".into()));
        assert!(gone.contains("No such file") && gone.contains("modprobe i2c-dev"), "{gone}");
        if cannot_be_emulated(NO_IOCTL) {
            return;
        }
        let wanted = format!("/dev/null is no I²C bus: {}", io::Error::from_raw_os_error(libc::ENOTTY));
        assert_eq!(refused(Bus::Path("/dev/null".into())), wanted);
    }
}
