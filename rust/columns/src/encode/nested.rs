//! Encoders of objects, arrays, maps and dictionaries.

use arrow_array::{Array, FixedSizeListArray, GenericListArray, MapArray, OffsetSizeTrait, StructArray};
use arrow_buffer::NullBuffer;
use arrow_schema::ArrowError;

use super::{Cells, EncodeFault, cells, text};

/// A struct, or a whole row.
pub struct Objects {
    nulls: Option<NullBuffer>,
    /// Name, encoded name with colon, and cells of each field.
    fields: Vec<(String, Vec<u8>, Box<dyn Cells>)>,
    /// Null fields are written.
    write_nulls: bool,
}

impl Objects {
    pub fn new(array: &StructArray, write_nulls: bool) -> Result<Objects, ArrowError> {
        let fields = array.fields().iter().zip(array.columns()).map(|(field, column)| {
            let mut key = Vec::new();
            let _ = text::write(field.name().as_bytes(), &mut key);
            key.push(b':');
            Ok((field.name().clone(), key, cells(column, write_nulls)?))
        });
        Ok(Objects { nulls: array.nulls().cloned(), fields: fields.collect::<Result<_, ArrowError>>()?, write_nulls })
    }
}

impl Cells for Objects {
    fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    fn write(&self, row: usize, out: &mut Vec<u8>) -> Result<(), EncodeFault> {
        out.push(b'{');
        let mut first = true;
        for (name, key, cells) in &self.fields {
            let null = cells.is_null(row);
            if null && !self.write_nulls {
                continue;
            }
            if !std::mem::take(&mut first) {
                out.push(b',');
            }
            out.extend_from_slice(key);
            if null {
                out.extend_from_slice(b"null");
            } else {
                cells.write(row, out).map_err(|fault| fault.within(name))?;
            }
        }
        out.push(b'}');
        Ok(())
    }
}

/// Range of each row's items in the items of all rows.
pub struct Lists<F> {
    nulls: Option<NullBuffer>,
    range: F,
    items: Box<dyn Cells>,
}

impl<F: Fn(usize) -> (usize, usize) + Send + Sync> Cells for Lists<F> {
    fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    fn write(&self, row: usize, out: &mut Vec<u8>) -> Result<(), EncodeFault> {
        let (start, end) = (self.range)(row);
        out.push(b'[');
        for item in start..end {
            if item > start {
                out.push(b',');
            }
            write_item(self.items.as_ref(), item, out).map_err(|fault| fault.within("[]"))?;
        }
        out.push(b']');
        Ok(())
    }
}

/// Writes an item; a null is written as null.
fn write_item(items: &dyn Cells, item: usize, out: &mut Vec<u8>) -> Result<(), EncodeFault> {
    if items.is_null(item) {
        out.extend_from_slice(b"null");
        return Ok(());
    }
    items.write(item, out)
}

pub fn lists<O: OffsetSizeTrait>(
    array: GenericListArray<O>,
    write_nulls: bool,
) -> Result<Lists<impl Fn(usize) -> (usize, usize) + Send + Sync>, ArrowError> {
    let (nulls, offsets) = (array.nulls().cloned(), array.offsets().clone());
    let range = move |row: usize| (offsets[row].as_usize(), offsets[row + 1].as_usize());
    Ok(Lists { nulls, range, items: cells(array.values(), write_nulls)? })
}

pub fn fixed_lists(
    array: &FixedSizeListArray,
    write_nulls: bool,
) -> Result<Lists<impl Fn(usize) -> (usize, usize) + Send + Sync + use<>>, ArrowError> {
    let length = array.value_length().unsigned_abs() as usize;
    let range = move |row: usize| (row * length, (row + 1) * length);
    Ok(Lists { nulls: array.nulls().cloned(), range, items: cells(array.values(), write_nulls)? })
}

/// A map, as an object.
pub struct Maps {
    array: MapArray,
    keys: Box<dyn Cells>,
    values: Box<dyn Cells>,
}

pub fn maps(array: &MapArray, write_nulls: bool) -> Result<Maps, ArrowError> {
    Ok(Maps {
        array: array.clone(),
        keys: cells(array.keys(), write_nulls)?,
        values: cells(array.values(), write_nulls)?,
    })
}

impl Cells for Maps {
    fn is_null(&self, row: usize) -> bool {
        self.array.is_null(row)
    }

    fn write(&self, row: usize, out: &mut Vec<u8>) -> Result<(), EncodeFault> {
        let offsets = self.array.offsets();
        let (start, end) = (offsets[row] as usize, offsets[row + 1] as usize);
        out.push(b'{');
        for entry in start..end {
            if entry > start {
                out.push(b',');
            }
            self.keys.write(entry, out)?;
            out.push(b':');
            write_item(self.values.as_ref(), entry, out).map_err(|fault| fault.within("value"))?;
        }
        out.push(b'}');
        Ok(())
    }
}

/// A dictionary, as its values.
pub struct Dictionary {
    pub keys: Vec<Option<usize>>,
    pub values: Box<dyn Cells>,
}

impl Cells for Dictionary {
    fn is_null(&self, row: usize) -> bool {
        self.keys[row].is_none_or(|key| self.values.is_null(key))
    }

    fn write(&self, row: usize, out: &mut Vec<u8>) -> Result<(), EncodeFault> {
        match self.keys[row] {
            Some(key) => self.values.write(key, out),
            None => Ok(()),
        }
    }
}
