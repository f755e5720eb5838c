-- With the id, so that SQLite uses it: it prefers the primary key, which has all columns, and then reads all links.
DROP INDEX memory_links_by_title;
CREATE INDEX memory_links_by_title ON memory_links (project_id, title_key, memory_id);
