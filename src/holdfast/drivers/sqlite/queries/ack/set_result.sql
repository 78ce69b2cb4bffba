-- Store the result and the detail of one ack.
UPDATE holdfast_acking SET result = ?, detail = ? WHERE item = ?
