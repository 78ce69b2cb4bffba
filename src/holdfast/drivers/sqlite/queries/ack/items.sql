-- The items of the batch that are valid acks.
SELECT item FROM holdfast_acking
