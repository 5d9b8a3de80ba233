-- An adapter's own word for a position, or what is in flight at a broker that gives no coordinates.
ALTER TABLE checkpoints ADD COLUMN mark TEXT;
