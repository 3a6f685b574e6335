//! Sound and pictures as messages that Foxglove can show: `foxglove.RawAudio`, `foxglove.RawImage` and `foxglove.CompressedImage`. They use
//! protobuf, which keeps the bytes unchanged; JSON would take a third more.
//!
//! With so few fields, no code generator is needed. A message is a list of numbered fields, and its schema is a list of
//! their names, numbers and types (`google.protobuf.FileDescriptorSet`). Names and numbers are taken from
//! <https://github.com/foxglove/foxglove-sdk/tree/main/schemas/proto>.

use super::chunks::Schema;
use crate::channels::{AudioFormat, ImageFormat, SampleFormat};
use crate::recording::wav::packed;

/// Field types, with their numbers in `google.protobuf.FieldDescriptorProto.Type`.
const INT64: u64 = 3;
const INT32: u64 = 5;
const FIXED32: u64 = 7;
const STRING: u64 = 9;
const MESSAGE: u64 = 11;
const BYTES: u64 = 12;

type Field = (&'static str, u64, u64); // name, number, type

const TIMESTAMP: &[Field] = &[("seconds", 1, INT64), ("nanos", 2, INT32)];
const RAW_AUDIO: &[Field] = &[
    ("timestamp", 1, MESSAGE),
    ("data", 2, BYTES),
    ("format", 3, STRING),
    ("sample_rate", 4, FIXED32),
    ("number_of_channels", 5, FIXED32),
];
const RAW_IMAGE: &[Field] = &[
    ("timestamp", 1, MESSAGE),
    ("width", 2, FIXED32),
    ("height", 3, FIXED32),
    ("encoding", 4, STRING),
    ("step", 5, FIXED32),
    ("data", 6, BYTES),
    ("frame_id", 7, STRING),
];
const COMPRESSED_IMAGE: &[Field] =
    &[("timestamp", 1, MESSAGE), ("data", 2, BYTES), ("format", 3, STRING), ("frame_id", 4, STRING)];

pub(super) fn audio_schema() -> Schema {
    schema("RawAudio", RAW_AUDIO)
}

pub(super) fn image_schema(format: ImageFormat) -> Schema {
    match compressed(format) {
        true => schema("CompressedImage", COMPRESSED_IMAGE),
        false => schema("RawImage", RAW_IMAGE),
    }
}

/// Writes a block of sound that begins at `utc`.
pub(super) fn audio(message: &mut Vec<u8>, format: AudioFormat, utc: i128, bytes: &[u8]) {
    let name = match format.sample {
        SampleFormat::S16 => "pcm-s16",
        SampleFormat::S24 => "pcm-s24",
        SampleFormat::S32 => "pcm-s32",
        SampleFormat::F32 => "pcm-f32",
    };
    timestamp(message, utc);
    text(message, 3, name);
    fixed32(message, 4, format.rate);
    fixed32(message, 5, format.channels.into());
    bytes_field(message, 2, &packed(format.sample, bytes));
}

/// Writes a picture taken at `utc` by `frame`.
pub(super) fn image(message: &mut Vec<u8>, format: ImageFormat, utc: i128, frame: &str, bytes: &[u8]) {
    timestamp(message, utc);
    let ImageFormat { width, height, stride, four_cc } = format;
    if compressed(format) {
        let own = String::from_utf8_lossy(&four_cc).trim().to_ascii_lowercase();
        text(message, 3, if matches!(&four_cc, b"MJPG" | b"JPEG") { "jpeg" } else { &own });
        text(message, 4, frame);
        return bytes_field(message, 2, bytes);
    }
    fixed32(message, 2, width);
    fixed32(message, 3, height);
    text(message, 4, &encoding(four_cc));
    fixed32(message, 5, stride);
    text(message, 7, frame);
    bytes_field(message, 6, bytes);
}

fn compressed(format: ImageFormat) -> bool {
    format.stride == 0
}

/// Translates a V4L2 pixel format to Foxglove's name; one without such a name keeps V4L2's.
fn encoding(four_cc: [u8; 4]) -> String {
    let name = match &four_cc {
        b"YUYV" => "yuv422_yuy2",
        b"UYVY" => "yuv422",
        b"GREY" => "mono8",
        b"Y16 " => "mono16",
        b"RGB3" => "rgb8",
        b"BGR3" => "bgr8",
        b"AB24" | b"XB24" => "rgba8",
        b"AR24" | b"XR24" | b"BGR4" => "bgra8",
        b"BA81" => "bayer_bggr8",
        b"GBRG" => "bayer_gbrg8",
        b"GRBG" => "bayer_grbg8",
        b"RGGB" => "bayer_rggb8",
        other => return String::from_utf8_lossy(other).trim().to_owned(),
    };
    name.to_owned()
}

/// A `FileDescriptorSet` with the message and the timestamp type that it uses.
fn schema(name: &str, fields: &[Field]) -> Schema {
    let mut data = Vec::new();
    let (package, uses) = ("google.protobuf", None);
    bytes_field(&mut data, 1, &file("google/protobuf/timestamp.proto", package, uses, "Timestamp", TIMESTAMP));
    let uses = Some("google/protobuf/timestamp.proto");
    bytes_field(&mut data, 1, &file(&format!("foxglove/{name}.proto"), "foxglove", uses, name, fields));
    Schema { name: format!("foxglove.{name}"), data }
}

/// A `FileDescriptorProto` with one message.
fn file(path: &str, package: &str, uses: Option<&str>, name: &str, fields: &[Field]) -> Vec<u8> {
    let mut message = Vec::new();
    text(&mut message, 1, name);
    for (name, number, kind) in fields {
        let mut field = Vec::new();
        text(&mut field, 1, name);
        varint_field(&mut field, 3, *number);
        varint_field(&mut field, 4, 1); // LABEL_OPTIONAL
        varint_field(&mut field, 5, *kind);
        if *kind == MESSAGE {
            text(&mut field, 6, ".google.protobuf.Timestamp");
        }
        bytes_field(&mut message, 2, &field);
    }
    let mut file = Vec::new();
    text(&mut file, 1, path);
    text(&mut file, 2, package);
    uses.iter().for_each(|path| text(&mut file, 3, path));
    bytes_field(&mut file, 4, &message);
    text(&mut file, 12, "proto3");
    file
}

fn timestamp(message: &mut Vec<u8>, utc: i128) {
    let utc = u64::try_from(utc).unwrap_or_default();
    let mut stamp = Vec::new();
    varint_field(&mut stamp, 1, utc / 1_000_000_000);
    varint_field(&mut stamp, 2, utc % 1_000_000_000);
    bytes_field(message, 1, &stamp);
}

fn varint(message: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        message.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    message.push(value.to_le_bytes()[0]);
}

fn varint_field(message: &mut Vec<u8>, number: u64, value: u64) {
    varint(message, number << 3);
    varint(message, value);
}

fn bytes_field(message: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    varint(message, number << 3 | 2);
    varint(message, bytes.len() as u64);
    message.extend_from_slice(bytes);
}

fn text(message: &mut Vec<u8>, number: u64, text: &str) {
    bytes_field(message, number, text.as_bytes());
}

fn fixed32(message: &mut Vec<u8>, number: u64, value: u32) {
    varint(message, number << 3 | 5);
    message.extend_from_slice(&value.to_le_bytes());
}
