"""Tables that come tick by tick: a tree over time and place whose parts are counted as soon as they are over."""
