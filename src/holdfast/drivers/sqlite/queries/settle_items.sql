-- Which items of the batch have been entered.
SELECT item FROM holdfast_settling
