-- What an ack brings beside its lease.
UPDATE holdfast_acking SET result = ?, detail = ? WHERE item = ?
