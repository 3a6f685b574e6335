#!/bin/bash
# A triggered IIO buffer: no sample is lost or duplicated, as the service's own user, while the device disappears and returns,
# and without timestamps. The kernel counts the triggered samples as interrupts.
. "$(dirname "$0")/common.sh"

# trigger_count: how often the trigger has fired so far.
trigger_count() { awk -v name="$IIO_TRIGGER_NAME" 'index($0, " " name " ") { for (i = 2; $i ~ /^[0-9]+$/; i++) n += $i } END { print n + 0 }' /proc/interrupts; }
# value TASK NAME: the last good one, while the device is away.
value() { task "$1" "values[\"$2\"] | .last // .last_good"; }
above() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a > b) }'; }
taken_above() { above "$(value imu samples)" "$1"; }
errors_above() { [ "$(task "$1" errors)" -gt "$2" ]; }
# stop_trigger: returns when the trigger has stopped and all its samples have been read.
stop_trigger() {
    echo 0.001 >"$IIO_TRIGGER/sampling_frequency"
    local before
    until before=$(trigger_count); sleep 1.5; [ "$(trigger_count)" = "$before" ]; do :; done
}
configure() {
    setup <<END
[task.imu]
kind = "sensor"
rate = "$1"
iio = "dummy"
buffered = true
trigger = "tick"
channels = ["in_voltage0", "in_accel_x"]
buffer-length = $2
sampling-frequency = 50
record = "imu.csv"

# On the same worker, so a delay of the other task delays this one too. Its period is longer than this machine's stalls and
# shorter than the device's absence.
[task.beat]
kind = "load"
period = "${PATIENCE}s"
END
}

check "iio_dummy and its trigger are loaded" load_iio_dummy 10
before=$(trigger_count)
configure "25 Hz" 512
check "it starts and reads samples" within 60 taken_above 200
iio_file() { tr -d '\0' <"$IIO/$1"; }
same "the trigger is set" tick "$(iio_file trigger/current_trigger)"
same "  and its frequency" 50 "$(cut -d . -f 1 "$IIO_TRIGGER/sampling_frequency")"
same "  the channels" 101 "$(iio_file scan_elements/in_voltage0_en)$(iio_file scan_elements/in_voltage1-voltage2_en)$(iio_file scan_elements/in_accel_x_en)"
same "  the clock" monotonic "$(iio_file current_timestamp_clock)"
same "  the length" 512 "$(iio_file buffer/length)"
same "its user is not root" hertzd "$(ps -o user= -p "$(main_pid)")"
stop_trigger
made=$(($(trigger_count) - before))
same "each triggered sample was read once" "$made" "$(value imu samples)"
# recorded: the number of samples in the recording, counting only those later than the one before.
recorded() { awk -F, 'NR > 1 && $2 > last { n++ } { last = NR > 1 ? $2 : "" } END { print n + 0 }' $STATE/imu.csv; }
all_recorded() { [ "$(recorded)" = "$made" ]; }
check "  and is in the recording once: $made" within 10 all_recorded
same "  the buffer was never full" 0 "$(value imu overflows)"
echo "# $(value imu samples) samples, $(value imu gaps) missing by their times"
# The driver always returns 7, with an offset of 7 and a scale of 0.001333, in mV.
same "values have offset and scale: $(value imu voltage0) V" 1.8662 "$(awk -v v="$(value imu voltage0)" 'BEGIN { printf "%.4f", v * 1e5 }')"
same "  and their unit" "m/s²" "$(task imu 'values["accel_x"].unit')"
check "  which are recorded" grep -q 'accel_x' $STATE/imu.csv

echo "# the device disappears and returns"
configure "25 Hz" 512
check "it starts and reads samples" within 60 taken_above 50
skipped=$(task beat skipped) errors=$(task imu errors)
unbind_iio_dummy
check "unplugged, its ticks fail" within 60 errors_above imu "$errors"
lost=$(value imu samples)
sleep $((4 * PATIENCE))
bind_iio_dummy
check "plugged in again, it reads samples" within 60 taken_above "$((lost + 100))"
same "  the device is set up again" tick101512 \
    "$(iio_file trigger/current_trigger)$(iio_file scan_elements/in_voltage0_en)$(iio_file scan_elements/in_voltage1-voltage2_en)$(iio_file scan_elements/in_accel_x_en)$(iio_file buffer/length)"
errors=$(task imu errors)
sleep 2
same "  without further errors" "$errors" "$(task imu errors)"
same "the other task skipped nothing in the meantime" "$skipped" "$(task beat skipped)"
has "the disconnect is logged" "$(messages)" "IIO device dummy of task imu stopped working; trying to reopen it"
sed -i 's/^rate = "25 Hz"/rate = "20 Hz"/' $CONFIG
check "a reload that replaces its task succeeds" systemctl reload hertzd
same "  at the new rate" 20/1 "$(task imu rate)"
check "  and reads samples" within 60 taken_above 50
stop_trigger
systemctl stop hertzd
same "a stop disables the buffer" 0 "$(iio_file buffer/enable)"

echo "# a buffer that is too short for its rate"
before=$(trigger_count)
configure "1 Hz" 8
check "it starts and reads samples" within 60 taken_above 24
stop_trigger
sleep 2
check "samples are lost: $(value imu samples) of $(($(trigger_count) - before))" above "$(($(trigger_count) - before))" "$(value imu samples)"
check "  which is reported: the buffer was full $(value imu overflows) times" above "$(value imu overflows)" 0
check "  and by the samples' times: $(value imu gaps) are missing" above "$(value imu gaps)" 0

echo "# a converter"
systemctl stop hertzd
setup <<END
[task.dac]
kind = "output"
rate = 5
input = 1.5
safe-after = "30s"
iio = "dummy"
file = "out_voltage0_raw"
safe = 0.25
END
millivolts() { [ "$(iio_file out_voltage0_raw)" = "$1" ]; }
check "its output follows its input, in V" within 60 millivolts 1500
same "  by the service's own user" hertzd "$(ps -o user= -p "$(main_pid)")"
systemctl stop hertzd
same "  and has its safe value after a stop" 250 "$(iio_file out_voltage0_raw)"

echo "# a device without timestamps"
# The kernel's driver always has them, so hide their files.
scan=$(realpath "$IIO/scan_elements")
mkdir /run/scan_elements
echo 0 >"$scan/in_timestamp_en"
mount --bind "$scan" /run/scan_elements
mount --make-private /run/scan_elements # the mount over the folder must not propagate here
mount -t tmpfs scan "$scan"
for file in /run/scan_elements/*; do
    [[ $file != */in_timestamp_* ]] || continue
    : >"$scan/${file##*/}"
    mount --bind "$file" "$scan/${file##*/}"
done
before=$(trigger_count)
configure "25 Hz" 512
check "it starts and reads samples" within 60 taken_above 200
stop_trigger
made=$(($(trigger_count) - before))
same "each triggered sample was read once" "$made" "$(value imu samples)"
check "  and is in the recording once, each later than the one before: $made" within 10 all_recorded
echo "# $(value imu gaps) missing by their times"
# median_step: between consecutive samples, in ms.
median_step() {
    python3 - $STATE/imu.csv <<'END'
import csv, datetime, sys
rows = list(csv.reader(open(sys.argv[1])))
column = rows[0].index("sample_utc")
def seconds(text):
    whole, part = text.rstrip("Z").split(".")
    return datetime.datetime.fromisoformat(whole + "+00:00").timestamp() + float("0." + part)
times = [seconds(row[column]) for row in rows[1:]]
steps = sorted(b - a for a, b in zip(times, times[1:]))
print(f"{steps[len(steps) // 2] * 1000:.0f}")
END
}
same "  a period apart: the median step in ms" 20 "$(median_step)"
configure "1 Hz" 8
check "with a short buffer it reads samples" within 60 taken_above 24
check "  and $(value imu gaps) are missing after a full buffer" above "$(value imu gaps)" 0

systemctl stop hertzd
cat >$CONFIG <<'END'
[task.imu]
kind = "sensor"
rate = 10
iio = "dummy"
buffered = true
trigger = "tick"
END
chmod g-w "$IIO/scan_elements/"*_en
has "a refused write is reported with the remedy" "$(in_unit hertzd run --for 1s $CONFIG 2>&1)" "60-hertzd.rules"
