-- Leave out an ack whose registry writes are refused.
DELETE FROM holdfast_acking WHERE item = ?
