"""The successors of nats-py on jetarrow's connection: `client`, `jetstream` and `key_value`.

They have the names, arguments, results and errors of the packages nats-core, nats-jetstream and nats-key-value. With
`import jetarrow.as_nats` they are `nats.client`, `nats.jetstream` and `nats.key_value`.
"""
