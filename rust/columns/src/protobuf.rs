//! Protobuf payloads: messages of a descriptor set, which are read into columns in one pass.
//!
//! prost parses the descriptors. The decoder is our own: a message becomes columns without an object for it, and a
//! malformed one leaves them as they were.

mod arrow;
mod descriptor;
mod files;
mod read;
mod wire;
mod write;

use arrow_array::{Array, StructArray};
use arrow_schema::{ArrowError, Fields};

use crate::decode::column::ColumnDecoder;
use crate::encode::{Encoded, encode_rows};
pub use descriptor::Message;
pub use files::{MessageNames, SchemaFile, files_of, set_of};
use read::Input;

/// Returns the columns that a message has.
pub fn fields(message: &Message) -> Fields {
    arrow::fields(message)
}

/// Returns empty columns for the rows of a message, as one struct.
pub fn rows(message: &Message) -> Result<ColumnDecoder, String> {
    arrow::rows("value", message, true)
}

/// Checks that tables of these columns can be messages; the error names column and type.
pub fn check(columns: &Fields, message: &Message) -> Result<(), String> {
    write::check(columns, message, "")
}

/// Encodes each row as a message behind `frame`. The columns are those that `check` accepts.
pub fn encode(table: &StructArray, message: &Message, frame: &[u8]) -> Result<Encoded, ArrowError> {
    let columns = write::Columns::new(table, message)?;
    encode_rows(table.len(), |row, out| {
        out.extend_from_slice(frame);
        columns.write(row, out)
    })
}

/// Appends the row of a payload; the column and the reason if it is malformed.
pub fn read(message: &Message, payload: &[u8], row: &mut ColumnDecoder) -> Result<(), (String, String)> {
    let mut input = Input::new(payload);
    read::read(message, row, &mut input).map_err(|_| {
        input.trace.reverse();
        (input.trace.join("."), format!("not a {}: {}", message.name, input.reason))
    })
}
