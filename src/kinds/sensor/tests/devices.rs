//! Polled hwmon and IIO devices, in a simulated `/sys`.

use super::*;

#[test]
fn a_hwmon_device_is_found_by_name_and_again_under_another_number() {
    let sys = Sys::new();
    sys.hwmon(0, "cpu", &[("name", "coretemp\n"), ("temp1_input", "50000\n")]);
    let first = sys.hwmon(1, "0-0048", &[("name", "lm75\n"), ("temp1_input", "25500\n")]);
    let mut sensor = sys.open(named(Source::Hwmon, "lm75", None, &["temp1_input"])).unwrap();
    assert_eq!(columns(&*sensor), [pair("temp1", "°C")]);
    assert_eq!(tick(&mut *sensor), Ok(25.5));

    fs::remove_file(sys.root().join("class/hwmon/hwmon1")).unwrap();
    fs::remove_dir_all(first).unwrap();
    fs::remove_dir_all(sys.root().join("devices/0-0048")).unwrap();
    until(&mut *sensor, |_, done| done.is_err());
    sys.hwmon(7, "0-0048", &[("name", "lm75\n"), ("temp1_input", "-10000\n")]);
    until(&mut *sensor, |values, done| done.is_ok() && values == [-10.0]);
}

#[test]
fn a_channel_that_cannot_be_read_yet_keeps_its_place_and_costs_no_other_value() {
    let sys = Sys::new();
    let folder = sys.hwmon(0, "board", &[("name", "nct\n"), ("temp1_input", "21000\n"), ("temp3_input", "1000\n")]);
    let unreadable = folder.join("temp2_input");
    symlink("/proc/self/mem", &unreadable).unwrap(); // fails with EIO
    let mut all = sys.open(named(Source::Hwmon, "nct", None, &[])).unwrap();
    let wanted = [pair("temp1", "°C"), pair("temp2", "°C"), pair("temp3", "°C")];
    assert_eq!(columns(&*all), wanted);
    let (values, done) = tick_at(&mut *all, Instant::ZERO);
    assert_eq!((values[0], values[2], done), (21.0, 1.0, Ok(())), "it could never be read: this is no failure");
    assert_eq!(Quality::of(values[1], Basis::Good, None), Quality::Bad(Reason::Unavailable));
    fs::remove_file(&unreadable).unwrap();
    fs::write(&unreadable, "7000\n").unwrap();
    until(&mut *all, |values, done| done.is_ok() && values == [21.0, 7.0, 1.0]);
    fs::remove_file(&unreadable).unwrap();
    symlink("/proc/self/mem", &unreadable).unwrap();
    until(&mut *all, |values, done| values[0] == 21.0 && values[1].is_nan() && done.is_err());
    let (values, done) = tick_at(&mut *all, Instant::ZERO);
    assert_eq!((values[0], values[2]), (21.0, 1.0));
    let text = done.unwrap_err().text(&["a".into(), "b".into()]);
    assert!(text.starts_with("b: cannot read temp2_input: "), "{text}");
}

#[test]
fn a_device_of_which_nothing_can_be_read_yet_does_not_keep_its_task_from_starting() {
    let sys = Sys::new();
    let folder = sys.hwmon(0, "wifi", &[("name", "iwlwifi_1\n")]);
    let unreadable = folder.join("temp1_input");
    for files in [&[][..], &["temp1_input"]] {
        symlink("/proc/self/mem", &unreadable).unwrap(); // fails with EIO
        let mut sensor = sys.open(named(Source::Hwmon, "iwlwifi_1", None, files)).unwrap();
        assert_eq!(columns(&*sensor), [pair("temp1", "°C")]);
        let (values, done) = tick_at(&mut *sensor, Instant::ZERO);
        assert_eq!(done, Ok(()));
        assert_eq!(Quality::of(values[0], Basis::Good, None), Quality::Bad(Reason::Unavailable));
        fs::remove_file(&unreadable).unwrap();
        fs::write(&unreadable, "41000\n").unwrap();
        until(&mut *sensor, |values, done| done.is_ok() && values == [41.0]);
        fs::remove_file(&unreadable).unwrap();
        symlink("/proc/self/mem", &unreadable).unwrap();
        until(&mut *sensor, |_, done| done.is_err());
        let text = tick(&mut *sensor).unwrap_err().to_string();
        assert!(text.starts_with("cannot read temp1_input: "), "{text}");
        fs::remove_file(&unreadable).unwrap();
    }
}

#[test]
fn a_channel_that_only_averages_is_read() {
    let sys = Sys::new();
    let files = [("power1_average", "213000000\n"), ("power2_average", "34000000\n"), ("power2_input", "35000000\n")];
    sys.hwmon(0, "meter", &[&[("name", "power_meter\n")][..], &files].concat());
    let mut all = sys.open(named(Source::Hwmon, "power_meter", None, &[])).unwrap();
    assert_eq!(columns(&*all), [pair("power1", "W"), pair("power2", "W")]);
    assert_eq!(tick_at(&mut *all, Instant::ZERO), (vec![213.0, 35.0], Ok(())));
}

#[test]
fn which_device_is_meant_must_be_clear() {
    let sys = Sys::new();
    let refused = |settings| {
        let error = sys.open(settings).err().unwrap();
        (error.key, error.message)
    };
    let lm75 = |device| named(Source::Hwmon, "lm75", device, &["temp1_input"]);
    let none = refused(lm75(None));
    assert_eq!(none, ("hwmon", "no hwmon device is named \"lm75\"; there is no hwmon device at all".into()));
    sys.hwmon(3, "0-0048", &[("name", "lm75"), ("temp1_input", "1000")]);
    sys.hwmon(12, "1-0048", &[("name", "lm75"), ("temp1_input", "2000")]);
    sys.hwmon(2, "pci", &[("name", "nvme"), ("temp1_input", "3000")]);
    assert_eq!(
        refused(named(Source::Hwmon, "lm57", None, &[])),
        ("hwmon", "no hwmon device is named \"lm57\"; there are \"nvme\", \"lm75\", \"lm75\"".into())
    );
    let which = "2 hwmon devices are named \"lm75\"; say which with device = one of \"0-0048\", \"1-0048\"";
    assert_eq!(refused(lm75(None)), ("hwmon", which.into()));
    assert_eq!(
        refused(lm75(Some("2-0048"))),
        ("device", "no hwmon device \"lm75\" belongs to \"2-0048\"; it is one of \"0-0048\", \"1-0048\"".into())
    );
    assert_eq!(tick(&mut *sys.open(lm75(Some("1-0048"))).unwrap()), Ok(2.0));
    assert_eq!(tick(&mut *sys.open(lm75(Some("hwmon3"))).unwrap()), Ok(1.0));
    let (key, message) = refused(named(Source::Hwmon, "nvme", None, &["temp2_input"]));
    assert!(key == "file" && message.starts_with("cannot open /"), "{key}: {message}");
}

#[test]
fn all_that_a_hwmon_device_measures() {
    let sys = Sys::new();
    let files = [
        ("name", "board"),
        ("temp1_input", "25500"),
        ("temp1_label", "CPU"),
        ("temp2_input", "1000"),
        ("temp2_label", "temp1"),
        ("in0_input", "1200"),
        ("power1_input", "2500000"),
        ("fan1_input", "900"),
        ("temp1_crit", "95000"),
        ("pwm1", "51"),
        ("temp1_alarm", "1"),
        ("update_interval", "1500"),
    ];
    sys.hwmon(0, "board", &files);
    let mut sensor = sys.open(named(Source::Hwmon, "board", None, &[])).unwrap();
    assert_eq!(
        columns(&*sensor),
        [pair("fan1", "RPM"), pair("in0", "V"), pair("power1", "W"), pair("CPU", "°C"), pair("temp2", "°C")]
    );
    assert_eq!(tick_at(&mut *sensor, Instant::ZERO), (vec![900.0, 1.2, 2.5, 25.5, 1.0], Ok(())));
    let mut settings = named(Source::Hwmon, "board", None, &["temp1_input"]);
    settings.values[0].unit = Some("m°C".into());
    let mut sensor = sys.open(settings).unwrap();
    assert_eq!((tick(&mut *sensor), columns(&*sensor)), (Ok(25_500.0), vec![pair("temp1", "m°C")]));
    let others = ["temp1_crit", "pwm1", "temp1_alarm", "update_interval"];
    let mut sensor = sys.open(named(Source::Hwmon, "board", None, &others)).unwrap();
    let units = ["°C", "%", "", "s"];
    assert!(sensor.columns().iter().map(|column| &*column.unit).eq(units));
    assert_eq!(tick_at(&mut *sensor, Instant::ZERO), (vec![95.0, 51.0 * (100.0 / 255.0), 1.0, 1.5], Ok(())));
}

#[test]
fn what_the_chip_reports_as_broken_has_no_value() {
    let sys = Sys::new();
    let files = [
        ("name", "emc2103"),
        ("in0_input", "1200"),
        ("temp1_input", "25500"),
        ("temp1_fault", "0\n"),
        ("temp2_input", "-128000"),
        ("temp2_fault", "1\n"),
        ("temp20_input", "1000"),
        ("temp20_fault", "0\n"),
    ];
    let folder = sys.hwmon(0, "0-002e", &files);
    let mut sensor = sys.open(named(Source::Hwmon, "emc2103", None, &[])).unwrap();
    let (values, done) = tick_at(&mut *sensor, Instant::ZERO);
    assert!(values[..2] == [1.2, 25.5] && values[2].is_nan() && values[3] == 1.0, "{values:?}");
    assert_eq!(
        done.unwrap_err().to_string(),
        "the chip reports that a sensor is broken or not connected (temp2_fault is not 0), so temp2_input is not used: look at \
         the sensor and its cable"
    );
    fs::write(folder.join("temp2_input"), "30000").unwrap();
    fs::write(folder.join("temp2_fault"), "0\n").unwrap();
    assert_eq!(tick_at(&mut *sensor, Instant::ZERO), (vec![1.2, 25.5, 30.0, 1.0], Ok(())));
    fs::write(folder.join("temp20_fault"), "1\n").unwrap();
    let (values, done) = tick_at(&mut *sensor, Instant::ZERO);
    assert!(values[..3] == [1.2, 25.5, 30.0] && values[3].is_nan(), "{values:?}");
    assert!(done.unwrap_err().to_string().contains("the file _fault beside its _input is not 0"));

    let mut by_path = sys.open(SensorSettings::file(folder.join("temp20_input"))).unwrap();
    assert!(tick(&mut *by_path).is_err());
    fs::write(folder.join("temp20_fault"), "0\n").unwrap();
    assert_eq!(tick(&mut *by_path), Ok(1_000.0));
}

#[test]
fn channels_of_an_iio_device_have_the_abis_units() {
    let sys = Sys::new();
    let files = [
        ("name", "mpu6050\n"),
        ("label", "left wing\n"),
        ("in_accel_scale", "0.000598\n"),
        ("in_accel_x_raw", "-1000\n"),
        ("in_temp_raw", "100\n"),
        ("in_temp_offset", "12420\n"),
        ("in_temp_scale", "2.941176\n"),
        ("in_illuminance_input", "17.5\n"),
    ];
    sys.iio(0, "0-0068", &files);
    sys.iio(1, "", &[("name", "mpu6050\n"), ("in_accel_x_raw", "3\n")]);
    let all = named(Source::Iio, "left wing", None, &[]);
    let mut sensor = sys.open(all).unwrap();
    assert_eq!(columns(&*sensor), [pair("accel_x", "m/s²"), pair("illuminance", "lx"), pair("temp", "°C")]);
    let (values, done) = tick_at(&mut *sensor, Instant::ZERO);
    let near = |value: f64, wanted: f64| (value - wanted).abs() < 1e-9;
    assert!(done.is_ok() && near(values[0], -0.598) && near(values[1], 17.5), "{values:?}");
    assert!(near(values[2], 12_520.0 * 2.941_176 / 1_000.0), "{values:?}");

    let message = sys.open(named(Source::Iio, "mpu6050", None, &[])).err().unwrap().message;
    assert_eq!(
        message,
        "2 IIO devices are named \"mpu6050\"; say which with device = one of \"0-0068\", \"iio:device1\""
    );
    let one = named(Source::Iio, "mpu6050", Some("0-0068"), &["in_accel_x_raw"]);
    assert!(near(tick(&mut *sys.open(one).unwrap()).unwrap(), -0.598));
}

#[test]
fn one_that_is_not_there_yet_is_waited_for() {
    let sys = Sys::new();
    let settings = SensorSettings { missing: Missing::Wait, ..named(Source::Hwmon, "lm75", None, &["temp1_input"]) };
    let mut sensor = sys.open(settings).unwrap();
    assert_eq!(columns(&*sensor), [pair("temp1", "°C")]);
    assert!(tick(&mut *sensor).is_err());
    sys.hwmon(0, "0-0048", &[("name", "lm75"), ("temp1_input", "4000")]);
    until(&mut *sensor, |values, done| done.is_ok() && values == [4.0]);
}

#[test]
fn all_fields_of_a_channel_are_given() {
    let sys = Sys::new();
    let files =
        [("name", "hub"), ("in_rot_quaternion_raw", "1 -2 3 4 \n"), ("in_rot_scale", "0.5"), ("in_temp_raw", "5")];
    sys.iio(0, "", &files);
    let mut sensor = sys.open(named(Source::Iio, "hub", None, &[])).unwrap();
    let names = ["rot_quaternion_x", "rot_quaternion_y", "rot_quaternion_z", "rot_quaternion_w"];
    assert_eq!(columns(&*sensor)[..4], names.map(|name| pair(name, "")));
    assert_eq!(tick_at(&mut *sensor, Instant::ZERO), (vec![0.5, -1.0, 1.5, 2.0, 0.005], Ok(())));
    // It has the same columns if it cannot be read yet.
    let channel = sys.root().join("bus/iio/devices/iio:device0/in_rot_quaternion_raw");
    fs::remove_file(&channel).unwrap();
    symlink("/proc/self/mem", &channel).unwrap(); // fails with EIO
    let sensor = sys.open(named(Source::Iio, "hub", None, &[])).unwrap();
    assert_eq!(columns(&*sensor)[..4], names.map(|name| pair(name, "")));
}
