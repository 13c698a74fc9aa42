"""Records → text. Plain strings; colours and tables are the command line's business."""
