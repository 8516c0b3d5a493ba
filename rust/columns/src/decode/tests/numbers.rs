//! Tests of integers, floats and decimals.

use arrow_array::types::*;
use arrow_buffer::i256;

use super::*;

macro_rules! integers {
    ($($name:ident: $arrow:ident $native:ident $below:expr, $above:expr;)*) => {$(
        #[test]
        fn $name() -> TestResult {
            let (min, max) = ($native::MIN.to_string(), $native::MAX.to_string());
            let array = column($arrow::DATA_TYPE, &[&min, &max, "0", "-0", "null", "1.0", "1e1", "120e-1", "-0.0", "0e999999999999999999"])?;
            let expected: Vec<Option<$native>> =
                [$native::MIN, $native::MAX, 0, 0].map(Some).into_iter().chain([None]).chain([1, 10, 12, 0, 0].map(Some)).collect();
            assert_eq!(array.as_primitive::<$arrow>().iter().collect::<Vec<_>>(), expected);
            let unfit = [$below, $above, "1.5", "1e-1", "1e400", "-1e30", "99999999999999999999999", "1.00000000000000000000001"];
            refuses($arrow::DATA_TYPE, &unfit, "does not fit ");
            refuses($arrow::DATA_TYPE, &["\"1\"", "true", "[]", "{}"], "expected an integer, found");
            Ok(())
        }
    )*};
}

integers! {
    int8: Int8Type i8 "-129", "128";
    int16: Int16Type i16 "-32769", "32768";
    int32: Int32Type i32 "-2147483649", "2147483648";
    int64: Int64Type i64 "-9223372036854775809", "9223372036854775808";
    uint8: UInt8Type u8 "-1", "256";
    uint16: UInt16Type u16 "-1", "65536";
    uint32: UInt32Type u32 "-1", "4294967296";
    uint64: UInt64Type u64 "-1", "18446744073709551616";
}

#[test]
fn floats_are_decoded() -> TestResult {
    let texts =
        ["-0.0", "5e-324", "1.7976931348623157e308", "0.1", "1", "1e-400", "123456789012345678901234567890", "null"];
    let array = column(DataType::Float64, &texts)?;
    let values = array.as_primitive::<Float64Type>();
    for (row, text) in texts[..7].iter().enumerate() {
        assert_eq!(values.value(row).to_bits(), text.parse::<f64>()?.to_bits(), "{text}");
    }
    assert!(values.is_null(7) && values.value(0).is_sign_negative());
    refuses(DataType::Float64, &["1e400", "-1e309"], "does not fit Float64");
    refuses(
        DataType::Float64,
        &["NaN", "Infinity", "-Infinity", "+1", ".5", "1.", "01", "1e", "1e+", "-", "0x1", "1_0"],
        "not JSON",
    );
    refuses(DataType::Float64, &["\"NaN\"", "\"1\"", "true"], "expected a number, found");

    let array = column(DataType::Float32, &["0.1", "3.4028235e38", "16777217", "-0", "1.17549435e-38"])?;
    let expected = [0.1, f32::MAX, 16_777_216.0, -0.0, f32::MIN_POSITIVE];
    assert_eq!(array.as_primitive::<Float32Type>().values().as_ref(), expected);
    refuses(DataType::Float32, &["3.5e38", "1e39"], "does not fit Float32");

    let array = column(DataType::Float16, &["1.5", "-65504", "65519", "0.1"])?;
    let halves: Vec<f32> = array.as_primitive::<Float16Type>().values().iter().map(|half| half.to_f32()).collect();
    assert_eq!(halves[..3], [1.5, -65504.0, 65504.0]);
    refuses(DataType::Float16, &["65520", "-1e10"], "does not fit Float16");
    Ok(())
}

#[test]
fn decimals_are_decoded_and_rounded() -> TestResult {
    let texts = [
        "1.005",
        "-1.005",
        "1.004999999999999999999999",
        "12345678.99",
        "\"12.3\"",
        "1e2",
        "0.001",
        "0",
        "\"-0.005\"",
        "null",
    ];
    let array = column(DataType::Decimal128(10, 2), &texts)?;
    let expected = [101, -101, 100, 1_234_567_899, 1230, 10_000, 0, 0, -1].map(Some).into_iter().chain([None]);
    assert_eq!(array.as_primitive::<Decimal128Type>().iter().collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    let unfit = ["100000000", "99999999.995", "1e9", "1e400", "\"\"", "\" 1\"", "\"1 \"", "\"x\"", "\"NaN\""];
    refuses(DataType::Decimal128(10, 2), &unfit, "does not fit Decimal128(10, 2)");
    refuses(DataType::Decimal128(10, 2), &["true", "{}"], "expected a number");

    let nines = "9".repeat(38);
    let array = column(DataType::Decimal128(38, 0), &[&nines, &format!("-{nines}"), &format!("0.{nines}"), "1e37"])?;
    let most = 10i128.pow(38) - 1;
    assert_eq!(array.as_primitive::<Decimal128Type>().values().as_ref(), [most, -most, 1, 10i128.pow(37)]);
    refuses(
        DataType::Decimal128(38, 0),
        &[&format!("{nines}.5"), "1e38", "100000000000000000000000000000000000000"],
        "does not fit",
    );
    let array =
        column(DataType::Decimal128(38, 38), &["0.00000000000000000000000000000000000001", "1e-39", "5e-39", "4e-40"])?;
    assert_eq!(array.as_primitive::<Decimal128Type>().values().as_ref(), [1, 0, 1, 0]);
    let array = column(DataType::Decimal128(3, -2), &["12345", "99949", "49", "50"])?;
    assert_eq!(array.as_primitive::<Decimal128Type>().values().as_ref(), [123, 999, 0, 1]);
    refuses(DataType::Decimal128(3, -2), &["99950"], "does not fit");

    let array = column(DataType::Decimal32(9, 3), &["-999999.999"])?;
    assert_eq!(array.as_primitive::<Decimal32Type>().value(0), -999_999_999);
    let array = column(DataType::Decimal64(18, 0), &["999999999999999999"])?;
    assert_eq!(array.as_primitive::<Decimal64Type>().value(0), 999_999_999_999_999_999);
    let nines = "9".repeat(76);
    let array = column(
        DataType::Decimal256(76, 0),
        &[&nines, &format!("-{nines}"), "1.5", "123456789012345678901234567890123456789.5"],
    )?;
    let parse = |text: &str| i256::from_string(text).ok_or("no i256");
    let expected =
        [parse(&nines)?, parse(&format!("-{nines}"))?, parse("2")?, parse("123456789012345678901234567890123456790")?];
    assert_eq!(array.as_primitive::<Decimal256Type>().values().as_ref(), expected);
    refuses(DataType::Decimal256(76, 0), &[&format!("{nines}.5"), "1e76"], "does not fit");
    Ok(())
}
