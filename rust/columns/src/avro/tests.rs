//! Tests of schemas and malformed data. Random data are compared with fastavro in tests/test_avro.py.
