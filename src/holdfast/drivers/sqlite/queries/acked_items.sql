-- Which items of the batch were entered.
SELECT item FROM holdfast_acking
