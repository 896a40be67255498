-- Full-text search over pages.text. Trigrams find parts of words, and words of scripts that put no spaces between them.
CREATE VIRTUAL TABLE pages_fts USING fts5(text, content='pages', content_rowid='id', tokenize='trigram');

CREATE TRIGGER pages_text_added AFTER INSERT ON pages WHEN new.text <> ''
BEGIN
    INSERT INTO pages_fts (rowid, text) VALUES (new.id, new.text);
END;

CREATE TRIGGER pages_text_removed AFTER DELETE ON pages WHEN old.text <> ''
BEGIN
    INSERT INTO pages_fts (pages_fts, rowid, text) VALUES ('delete', old.id, old.text);
END;

CREATE TRIGGER pages_text_changed_from AFTER UPDATE OF text ON pages WHEN old.text <> ''
BEGIN
    INSERT INTO pages_fts (pages_fts, rowid, text) VALUES ('delete', old.id, old.text);
END;

CREATE TRIGGER pages_text_changed_to AFTER UPDATE OF text ON pages WHEN new.text <> ''
BEGIN
    INSERT INTO pages_fts (rowid, text) VALUES (new.id, new.text);
END;
