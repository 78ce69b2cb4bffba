-- Purpose: the ledger rows of each bucket of 32,768 positions: their number, and the number of different positions. One row for
-- each bucket that has rows; bucket 0 is every position that must not exist, bucket -1 every one before {first}.
-- Input: {leases}, ledger rows; {first} and {position}, the range in which every position has one row.
-- Shape: a bitmap of 4 KiB for each bucket. No row is shuffled.
SELECT bucket, count(*) AS rows, bitmap_count(bitmap_construct_agg(bit)) AS positions
  FROM (SELECT CASE WHEN position >= {first} AND position < {position} THEN bitmap_bucket_number(position + 1)
                    WHEN position >= 0 AND position < {first} THEN -1L ELSE 0L END AS bucket,
               bitmap_bit_position(coalesce(position, 0L) + 1) AS bit
          FROM {leases})
 GROUP BY bucket
