//! Buffers of IIO devices, in a simulated `/sys`.

use super::*;
use crate::channels::{Format, Stream};
use crate::sys::clock::KernelClock;
use crate::time::Clock;
use std::io::Write;

/// An IIO device with a buffer and a trigger. Its node is a file to which samples are appended.
fn buffered_device(number: u32) -> (Sys, PathBuf, PathBuf) {
    let sys = Sys::new();
    let folder = sys.iio(
        number,
        "0-0068",
        &[
            ("name", "toy\n"),
            ("in_accel_scale", "0.5\n"),
            ("in_voltage0_offset", "10\n"),
            ("in_voltage_scale", "2\n"),
            ("current_timestamp_clock", "realtime\n"),
        ],
    );
    for (file, content) in [
        ("buffer/enable", "0\n"),
        ("buffer/length", "2\n"),
        ("buffer/watermark", "2\n"),
        ("trigger/current_trigger", "\n"),
    ] {
        fs::create_dir_all(folder.join(file).parent().unwrap()).unwrap();
        fs::write(folder.join(file), content).unwrap();
    }
    fs::create_dir(folder.join("scan_elements")).unwrap();
    for (channel, index, layout) in [
        ("in_voltage0", "0", "le:u16/16>>0"),
        ("in_accel_x", "1", "be:s12/16>>4"),
        ("in_accel_y", "2", "be:s12/16>>4"),
        ("in_timestamp", "3", "le:s64/64>>0"),
    ] {
        for (what, content) in [("en", "0"), ("index", index), ("type", layout)] {
            fs::write(folder.join(format!("scan_elements/{channel}_{what}")), format!("{content}\n")).unwrap();
        }
    }
    let trigger = sys.root().join("bus/iio/devices/trigger0");
    fs::create_dir_all(&trigger).unwrap();
    fs::write(trigger.join("name"), "beat\n").unwrap();
    fs::write(trigger.join("sampling_frequency"), "50.000\n").unwrap();
    let node = sys.root().join(format!("dev/iio:device{number}"));
    fs::write(&node, "").unwrap();
    (sys, folder, node)
}

fn from_the_buffer(change: impl FnOnce(&mut BufferSettings)) -> SensorSettings {
    let mut buffer = BufferSettings {
        trigger: Some("beat".into()),
        channels: vec!["in_voltage0".into(), "in_accel_x".into()],
        length: 5,
        sampling_frequency: Some(100.0),
    };
    change(&mut buffer);
    let wanted = ByName { name: "toy".into(), device: None };
    SensorSettings { source: Source::Buffer(wanted, buffer), values: Vec::new(), ..SensorSettings::file("") }
}

/// A sample of `in_voltage0`, `in_accel_x` and the timestamp.
fn sample(voltage: u16, accel: i16, at: i64) -> Vec<u8> {
    let mut bytes = voltage.to_le_bytes().to_vec();
    bytes.extend((accel << 4).to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(at.to_le_bytes());
    bytes
}

fn put(node: &Path, samples: &[Vec<u8>]) {
    let mut file = fs::OpenOptions::new().append(true).open(node).unwrap();
    file.write_all(&samples.concat()).unwrap();
}

#[test]
fn a_buffer_is_set_up_and_switched_off_again() {
    let (sys, folder, _) = buffered_device(0);
    let sensor = sys.open(from_the_buffer(|_| {})).unwrap();
    let says = |file: &str| fs::read_to_string(folder.join(file)).unwrap().trim().to_owned();
    for (file, wanted) in [
        ("trigger/current_trigger", "beat"),
        ("scan_elements/in_voltage0_en", "1"),
        ("scan_elements/in_accel_x_en", "1"),
        ("scan_elements/in_accel_y_en", "0"),
        ("scan_elements/in_timestamp_en", "1"),
        ("current_timestamp_clock", "monotonic"),
        ("buffer/length", "8"),
        ("buffer/watermark", "1"),
        ("buffer/enable", "1"),
    ] {
        assert_eq!(says(file), wanted, "{file}");
    }
    let frequency = fs::read_to_string(sys.root().join("bus/iio/devices/trigger0/sampling_frequency")).unwrap();
    assert_eq!(frequency, "100");
    assert_eq!(
        columns(&*sensor),
        [pair("voltage0", "V"), pair("accel_x", "m/s²"), pair("samples", ""), pair("overflows", ""), pair("gaps", "")]
    );
    drop(sensor);
    assert_eq!(says("buffer/enable"), "0");
}

#[test]
fn every_sample_is_taken_once() {
    let (sys, _, node) = buffered_device(0);
    let (mut sensor, stream) = sys.open_recorded(from_the_buffer(|_| {})).unwrap();
    let Stream { shape, blocks } = stream.unwrap();
    let Format::Samples(channels) = &shape.format else { panic!("{shape:?}") };
    assert_eq!((channels.len(), shape.largest, shape.bytes_per_second), (2, 8 * 24, 2_400.0));
    let mut receiver = blocks.unwrap();

    let (values, done) = tick_at(&mut *sensor, Instant::ZERO);
    assert!(done.is_ok() && values[0].is_nan() && values[2..] == [0.0, 0.0, 0.0], "{values:?}");

    let period = 10_000_000;
    put(&node, &[sample(5, -2, 1_000), sample(7, -4, 1_000 + period)]);
    let (values, _) = tick_at(&mut *sensor, Instant::ZERO);
    // (raw + 10) * 2 mV, and raw * 0.5 m/s².
    assert_eq!(values, [0.032, -1.5, 2.0, 0.0, 0.0]);
    assert_eq!(sensor.origin(), Some(Instant::from_nanos(1_000)), "of the oldest sample");
    let block = receiver.take().unwrap();
    assert_eq!((block.head.index, block.head.at.nanos()), (0, 1_000));
    let words: Vec<_> = block.bytes.chunks_exact(8).map(|word| <[u8; 8]>::try_from(word).unwrap()).collect();
    let times = [words[0], words[3]].map(i64::from_ne_bytes);
    let values = [words[1], words[2], words[4], words[5]].map(f64::from_ne_bytes);
    assert_eq!((words.len(), times, values), (6, [1_000, 1_000 + period], [0.030, -1.0, 0.034, -2.0]));

    // Two are missing before these, and eight fill the kernel's buffer.
    let more: Vec<_> = (4..14).map(|index| sample(0, 0, 1_000 + index * period)).collect();
    put(&node, &more);
    let (values, _) = tick_at(&mut *sensor, Instant::ZERO);
    assert_eq!(values[2..], [12.0, 1.0, 2.0]);
    let sizes: Vec<_> =
        std::iter::from_fn(|| receiver.take().map(|block| (block.head.index, block.bytes.len()))).collect();
    assert_eq!(sizes, [(2, 8 * 24), (12, 2 * 24)]);
    assert_eq!(tick_at(&mut *sensor, Instant::ZERO).0[2..], [12.0, 1.0, 2.0]);
    assert_eq!(sensor.origin(), None, "there is no sample");
}

#[test]
fn a_buffer_that_was_full_before_the_first_tick_counts_for_nothing() {
    let (sys, _, node) = buffered_device(0);
    let mut sensor = sys.open(from_the_buffer(|_| {})).unwrap();
    // More than the buffer holds.
    put(&node, &(0..10).map(|index| sample(9, 9, index * 10_000_000)).collect::<Vec<_>>());
    let (values, done) = tick_at(&mut *sensor, Instant::ZERO);
    assert!(done.is_ok() && values[0].is_nan() && values[2..] == [0.0, 0.0, 0.0], "{values:?}");
    put(&node, &[sample(5, -2, 1_000_000_000)]);
    assert_eq!(tick_at(&mut *sensor, Instant::ZERO).0, [0.03, -1.0, 1.0, 0.0, 0.0]);
}

#[test]
fn blocks_are_of_4096_samples_at_the_most() {
    let (sys, _, node) = buffered_device(0);
    let (mut sensor, stream) = sys.open_recorded(from_the_buffer(|buffer| buffer.length = 10_000)).unwrap();
    let Stream { shape, blocks } = stream.unwrap();
    assert_eq!(shape.largest, 4_096 * 24);
    let mut receiver = blocks.unwrap();
    tick_at(&mut *sensor, Instant::ZERO).1.unwrap();
    put(&node, &(0..9_000).map(|index| sample(5, -2, index * 10_000_000)).collect::<Vec<_>>());
    let (values, _) = tick_at(&mut *sensor, Instant::ZERO);
    assert_eq!(values[2..], [9_000.0, 0.0, 0.0]);
    assert!((values[1] + 1.0).abs() < 1e-9, "{values:?}");
    let sizes: Vec<_> =
        std::iter::from_fn(|| receiver.take().map(|block| (block.head.index, block.bytes.len() / 24))).collect();
    assert_eq!(sizes, [(0, 4_096), (4_096, 4_096), (8_192, 808)]);
}

#[test]
fn missing_samples_are_reported() {
    let (sys, _, node) = buffered_device(0);
    let trigger = sys.root().join("bus/iio/devices/trigger0/name");
    let at = |seconds| Instant::ZERO + Span::from_seconds(seconds);
    let mut sensor = sys.open(from_the_buffer(|_| {})).unwrap();
    for second in 0..6 {
        tick_at(&mut *sensor, at(second)).1.unwrap();
    }
    let (values, stalled) = tick_at(&mut *sensor, at(6));
    assert_eq!(stalled.unwrap_err().to_string(), "the device gives no samples");
    assert_eq!(values[2..], [0.0, 0.0, 0.0]);
    put(&node, &[sample(5, -2, 1_000)]);
    tick_at(&mut *sensor, at(7)).1.unwrap();
    drop(sensor);

    // A trigger fired by hand has no period.
    fs::write(trigger, "sysfstrig1\n").unwrap();
    let mut sensor = sys.open(from_the_buffer(|buffer| buffer.trigger = Some("sysfstrig1".into()))).unwrap();
    for second in 0..100 {
        tick_at(&mut *sensor, at(second)).1.unwrap();
    }
}

#[test]
fn what_a_buffer_cannot_do_is_refused() {
    let (sys, folder, node) = buffered_device(0);
    let refused = |change: fn(&mut BufferSettings)| {
        let error = sys.open(from_the_buffer(change)).err().unwrap();
        (error.key, error.message.replace(&folder.display().to_string(), "DEVICE"))
    };
    let said = |key, message: &str| (key, String::from(message));
    assert_eq!(
        refused(|buffer| buffer.trigger = Some("beet".into())),
        said("trigger", "there is no trigger \"beet\"; there is \"beat\"")
    );
    assert_eq!(
        refused(|buffer| buffer.channels = vec!["in_accel_z".into()]),
        said("channels", "the device cannot capture \"in_accel_z\"; it has in_accel_x, in_accel_y, in_voltage0")
    );
    fs::write(folder.join("scan_elements/in_accel_x_type"), "le:q16\n").unwrap();
    let (key, message) = refused(|_| {});
    assert!(key == "iio" && message.ends_with("in_accel_x_type has an unknown format: \"le:q16\""), "{message}");
    fs::remove_file(&node).unwrap();
    assert_eq!(refused(|_| {}).0, "iio");
    fs::remove_dir_all(folder.join("scan_elements")).unwrap();
    assert_eq!(
        refused(|_| {}),
        said("buffered", "the IIO device \"toy\" has no buffer; without buffered = true it is polled")
    );
}

#[test]
fn all_channels_are_captured_unless_some_are_named() {
    let (sys, folder, _) = buffered_device(3);
    fs::write(sys.root().join("bus/iio/devices/trigger0/name"), "toy-dev3\n").unwrap();
    let sensor = sys.open(from_the_buffer(|buffer| (buffer.channels, buffer.trigger) = (Vec::new(), None))).unwrap();
    let names: Vec<_> = columns(&*sensor).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["voltage0", "accel_x", "accel_y", "samples", "overflows", "gaps"]);
    assert_eq!(fs::read_to_string(folder.join("trigger/current_trigger")).unwrap(), "toy-dev3", "its own");
}

#[test]
fn samples_without_a_time_are_dated_by_the_period() {
    let (sys, folder, node) = buffered_device(0);
    for what in ["en", "index", "type"] {
        fs::remove_file(folder.join(format!("scan_elements/in_timestamp_{what}"))).unwrap();
    }
    let (mut sensor, stream) = sys.open_recorded(from_the_buffer(|_| {})).unwrap();
    let mut receiver = stream.unwrap().blocks.unwrap();
    let mut read = |count: usize| {
        put(&node, &vec![sample(5, -2, 0)[..4].to_vec(); count]);
        let (values, done) = tick_at(&mut *sensor, Instant::ZERO);
        assert_eq!(done, Ok(()));
        let block = receiver.take().unwrap();
        let times = block.bytes.chunks_exact(24).map(|sample| i64::from_ne_bytes(sample[..8].try_into().unwrap()));
        (block.head.index, times.collect::<Vec<_>>(), values[4])
    };
    let period = 10_000_000;
    let (index, times, gaps) = read(3);
    assert!(index == 0 && gaps == 0.0 && times.windows(2).all(|pair| pair[1] - pair[0] == period), "{times:?}");
    // Eight fill the kernel's buffer; samples that would have followed are missing.
    let (_, full, _) = read(8);
    let clock = KernelClock::monotonic();
    clock.sleep_until(clock.now() + Span::from_millis(200));
    let (index, times, gaps) = read(1);
    let index = f64::from(u32::try_from(index).unwrap());
    assert!(gaps >= 17.0 && index == 11.0 + gaps, "{index} {gaps}");
    assert!(times[0] - full[7] >= 17 * period, "{full:?} {times:?}");
}

#[test]
fn the_frequency_of_a_channel_is_known_without_naming_it() {
    let (sys, folder, _) = buffered_device(0);
    fs::remove_file(sys.root().join("bus/iio/devices/trigger0/sampling_frequency")).unwrap();
    fs::write(folder.join("in_accel_sampling_frequency"), "125\n").unwrap();
    let settings = from_the_buffer(|buffer| (buffer.channels, buffer.sampling_frequency) = (Vec::new(), None));
    let (_sensor, stream) = sys.open_recorded(settings).unwrap();
    assert_eq!(stream.unwrap().shape.bytes_per_second, 125.0 * 32.0);
}

#[test]
fn a_quaternion_gives_all_its_fields() {
    let (sys, folder, node) = buffered_device(0);
    fs::rename(folder.join("scan_elements/in_accel_x_en"), folder.join("scan_elements/in_rot_quaternion_en")).unwrap();
    fs::write(folder.join("scan_elements/in_rot_quaternion_index"), "1").unwrap();
    fs::write(folder.join("scan_elements/in_rot_quaternion_type"), "le:s16/16X4>>0").unwrap();
    let only = |missing| {
        let settings = from_the_buffer(|buffer| buffer.channels = vec!["in_rot_quaternion".into()]);
        SensorSettings { missing, ..settings }
    };
    let names = ["rot_quaternion_x", "rot_quaternion_y", "rot_quaternion_z", "rot_quaternion_w"];
    let mut sensor = sys.open(only(Missing::Refuse)).unwrap();
    assert_eq!(columns(&*sensor)[..4], names.map(|name| pair(name, "")));
    put(&node, &[[1_i16, -2, 3, 4].map(i16::to_le_bytes).concat(), 1_000_i64.to_le_bytes().to_vec()]);
    assert_eq!(tick_at(&mut *sensor, Instant::ZERO).0[..4], [1.0, -2.0, 3.0, 4.0]);
    drop(sensor);
    fs::rename(&node, node.with_extension("away")).unwrap();
    let mut sensor = sys.open(only(Missing::Wait)).unwrap();
    assert_eq!(columns(&*sensor)[..4], names.map(|name| pair(name, "")));
    fs::rename(node.with_extension("away"), &node).unwrap();
    until(&mut *sensor, |values, done| done.is_ok() && values[..4] == [1.0, -2.0, 3.0, 4.0]);
}
