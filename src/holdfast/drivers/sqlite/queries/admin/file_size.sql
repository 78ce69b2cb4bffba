-- The size of the database file in bytes, and how much of it is unused. Reads the header of the file.
SELECT page_count * page_size, freelist_count * page_size
  FROM pragma_page_count(), pragma_page_size(), pragma_freelist_count()
