-- The instant that judges a call, for what is decided outside of the functions.
SELECT holdfast.instant_1(NULL)
