//! The available cameras and their modes. Opens devices, and may block; not for a hot thread.

use super::list::{self, Camera};
use crate::site::Roots;
use crate::sys::video::Device;
use std::path::{Path, PathBuf};
use std::{fmt, io};

/// A format and size in which a camera can deliver frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CameraMode {
    /// V4L2's four characters.
    pub format: [u8; 4],
    /// The driver's name for the format.
    pub description: String,
    /// Width and height of the smallest frames, in pixels.
    pub smallest: (u32, u32),
    /// Width and height of the largest frames; equal to the smallest for a single size.
    pub largest: (u32, u32),
    /// Frames per second as fractions; empty if the driver does not report them. For a range of sizes, the rates of the largest.
    pub rates: Vec<(u32, u32)>,
}

/// The video nodes of this machine, ordered by number.
fn cameras() -> Vec<Camera> {
    list::cameras(&Roots::under(Path::new("/")))
}

/// The path of a device that is given by its path, or by a part of its name that only one camera has.
pub(super) fn find(device: &str) -> Result<PathBuf, String> {
    match device.starts_with('/') {
        true => Ok(device.into()),
        false => only(device, cameras(), captures),
    }
}

/// The nodes that this device description may refer to.
pub(super) fn nodes(device: &str) -> Vec<PathBuf> {
    let named = |camera: &Camera| camera.name.to_lowercase().contains(&device.to_lowercase());
    match device.starts_with('/') {
        true => vec![device.into()],
        false => cameras().into_iter().filter(named).map(|camera| camera.path).collect(),
    }
}

/// Whether the device can be opened and captures.
fn captures(path: &Path) -> io::Result<bool> {
    Device::open(path)?.capability().map(|capability| capability.captures)
}

/// The only camera in `all` with such a name that captures.
fn only(name: &str, all: Vec<Camera>, captures: impl Fn(&Path) -> io::Result<bool>) -> Result<PathBuf, String> {
    let there = named_all(&all);
    let wanted = name.to_lowercase();
    let named: Vec<_> = all.into_iter().filter(|camera| camera.name.to_lowercase().contains(&wanted)).collect();
    let mut refused = None;
    let mut found = Vec::new();
    for camera in named {
        match captures(&camera.path) {
            Ok(true) => found.push(camera),
            Ok(false) => {}
            Err(error) => refused = Some((camera, error)),
        }
    }
    match (&found[..], refused) {
        ([one], _) => Ok(one.path.clone()),
        ([], Some((camera, error))) => Err(cannot_open(&camera.path, &error)),
        ([], None) => Err(format!("no camera has {name:?} in its name; {there}")),
        (_, _) => {
            let several = named_all(&found);
            Err(format!("several cameras have {name:?} in their name; {several}; give a path below /dev/v4l/by-id"))
        }
    }
}

/// The reason why a device could not be opened, and the remedy.
pub(super) fn cannot_open(path: &Path, error: &io::Error) -> String {
    let remedy = match error.kind() {
        io::ErrorKind::NotFound => named_all(&cameras()),
        io::ErrorKind::PermissionDenied => "hertzd's user has to be in the device's group, video, and a \
             service has to be let in by DeviceAllow=char-video4linux rw"
            .into(),
        _ => return format!("cannot open {}: {error}", path.display()),
    };
    format!("cannot open {}: {error}; {remedy}", path.display())
}

fn named_all(cameras: &[Camera]) -> String {
    if cameras.is_empty() {
        return "there is no camera".into();
    }
    let named = cameras.iter().map(|camera| format!("{} ({})", camera.path.display(), camera.name));
    format!("there are {}", named.collect::<Vec<_>>().join(", "))
}

pub(super) fn of_device(device: &Device) -> io::Result<Vec<CameraMode>> {
    if !device.capability()?.captures {
        return Ok(Vec::new());
    }
    let mut modes = Vec::new();
    for (format, description) in device.formats()? {
        for sizes in device.sizes(format)? {
            modes.push(CameraMode {
                format,
                description: description.clone(),
                smallest: sizes.smallest,
                largest: sizes.largest,
                rates: device.rates(format, sizes.largest)?,
            });
        }
    }
    Ok(modes)
}

/// `"YUYV", "MJPG"`: the formats of these modes.
pub(super) fn formats(modes: &[CameraMode]) -> String {
    let mut named: Vec<String> = modes.iter().map(|mode| format!("{:?}", four_cc(mode.format))).collect();
    named.dedup();
    named.join(", ")
}

/// `320x180, 640x480`: the sizes available in a format.
pub(super) fn sizes(modes: &[CameraMode], format: [u8; 4]) -> String {
    let of_it = modes.iter().filter(|mode| mode.format == format);
    of_it.map(|mode| size_text(mode.smallest, mode.largest)).collect::<Vec<_>>().join(", ")
}

/// The characters of a format, without the padding spaces.
pub(super) fn four_cc(code: [u8; 4]) -> String {
    String::from_utf8_lossy(&code).trim_end().to_owned()
}

/// `30`, `30000/1001`: frames per second.
pub(super) fn rate_text((frames, seconds): (u32, u32)) -> String {
    match frames.checked_rem(seconds) {
        Some(0) => (frames / seconds).to_string(),
        _ => format!("{frames}/{seconds}"),
    }
}

/// `30, 25, 30000/1001`: frames per second.
pub(super) fn rates_text(rates: &[(u32, u32)]) -> String {
    rates.iter().map(|&rate| rate_text(rate)).collect::<Vec<_>>().join(", ")
}

fn size_text(smallest: (u32, u32), largest: (u32, u32)) -> String {
    let text = |(width, height): (u32, u32)| format!("{width}x{height}");
    match smallest == largest {
        true => text(largest),
        false => format!("{} to {}", text(smallest), text(largest)),
    }
}

/// `YUYV 640x480 at 30, 15`.
impl fmt::Display for CameraMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", four_cc(self.format), size_text(self.smallest, self.largest))?;
        if self.rates.is_empty() { Ok(()) } else { write!(f, " at {}", rates_text(&self.rates)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::emulation::{NO_IOCTL, cannot_be_emulated};

    fn mode(format: &[u8; 4], smallest: (u32, u32), largest: (u32, u32), rates: &[(u32, u32)]) -> CameraMode {
        CameraMode { format: *format, description: String::new(), smallest, largest, rates: rates.into() }
    }

    #[test]
    fn modes_in_words() {
        let modes = [
            mode(b"YUYV", (640, 480), (640, 480), &[(30, 1), (60, 2), (30_000, 1_001)]),
            mode(b"YUYV", (320, 180), (320, 180), &[]),
            mode(b"Y8  ", (16, 16), (4_096, 2_160), &[(0, 0)]),
        ];
        assert_eq!(modes[0].to_string(), "YUYV 640x480 at 30, 30, 30000/1001");
        assert_eq!(modes[2].to_string(), "Y8 16x16 to 4096x2160 at 0/0");
        assert_eq!(formats(&modes), r#""YUYV", "Y8""#);
        assert_eq!(sizes(&modes, *b"YUYV"), "640x480, 320x180");
        assert_eq!(sizes(&modes, *b"MJPG"), "");
    }

    #[test]
    fn cameras_are_found_by_a_part_of_their_name() {
        let camera = |number: u32, name: &str| Camera { path: format!("/dev/video{number}").into(), name: name.into() };
        let all = vec![camera(0, "HD Webcam: left"), camera(1, "HD Webcam: left"), camera(4, "vivid-000-vid-cap")];
        // A webcam's second node does not capture.
        let find = |name| only(name, all.clone(), |path| Ok(path != Path::new("/dev/video1")));
        assert_eq!(find("VIVID"), Ok("/dev/video4".into()));
        assert_eq!(find("webcam"), Ok("/dev/video0".into()));
        let there = "/dev/video0 (HD Webcam: left), /dev/video1 (HD Webcam: left), /dev/video4 (vivid-000-vid-cap)";
        assert_eq!(find("right"), Err(format!("no camera has \"right\" in its name; there are {there}")));
        let said = only("webcam", all.clone(), |_| Ok(true)).unwrap_err();
        assert!(said.starts_with("several cameras have \"webcam\" in their name; there are /dev/video0"), "{said}");
        let refused = |_: &Path| Err(io::Error::from_raw_os_error(libc::EACCES));
        let said = only("vivid", all.clone(), refused).unwrap_err();
        assert!(said.starts_with("cannot open /dev/video4: Permission denied (os error 13); hertzd's user"), "{said}");
        assert_eq!(
            only("vivid", Vec::new(), refused),
            Err("no camera has \"vivid\" in its name; there is no camera".into())
        );
    }

    #[test]
    fn what_is_no_camera_has_no_modes() {
        let modes = |path: &Path| of_device(&Device::open(path)?);
        assert_eq!(modes(Path::new("/nonexistent")).unwrap_err().kind(), io::ErrorKind::NotFound);
        if cannot_be_emulated(NO_IOCTL) {
            return;
        }
        assert_eq!(modes(Path::new("/dev/null")).unwrap_err().raw_os_error(), Some(libc::ENOTTY));
        for camera in cameras() {
            println!("{}: {:?}", camera.path.display(), modes(&camera.path));
        }
    }
}
