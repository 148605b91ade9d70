"""The loops that find the records of a text file: bytes in, where each field begins and ends out.

Plain Python, also for Numba: small files are read by these functions as they stand here, large ones by the same compiled.

    a record ends with a line end, outside quotation marks; a carriage return before it is no part of the record
    a field that begins with a quotation mark goes on to the next single one; two of them are one character
    what follows a closing mark, up to the delimiter, belongs to the field; a mark elsewhere is a character
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oboro.arrays import Bools, Bytes, Places

LINE, RETURN, MARK = 10, 13, 34
BEGIN, PLAIN, INSIDE, CLOSED = (
    0,
    1,
    2,
    3,
)  # where in a field: before it, in it, within marks, after a mark within marks


def find_fields(
    data: bytes | Bytes,
    place: int,
    size: int,
    last: bool,
    delimiter: int,
    longest: int,
    begins: Places,
    ends: Places,
    marked: Bools,
) -> tuple[int, int]:
    """Fills a row of `begins`, `ends` and `marked` for each whole record; how many there were, and where the next begins.

    A field that is not there begins and ends at the same place, and so do all of a record of more than `longest` bytes. Fields
    beyond the declared ones are passed over. With `last` the data ends the file: what stands there is a record.
    """
    rows, width = begins.shape
    count = 0
    while count < rows and place < size:
        start, column, state, at = place, 0, BEGIN, place
        while at < size:
            byte = data[at]
            if state == INSIDE:
                if byte == MARK:
                    state = CLOSED
            elif byte == delimiter:
                if column < width:
                    begins[count, column] = start
                    ends[count, column] = at
                start, column, state = at + 1, column + 1, BEGIN
            elif byte == LINE:
                break
            elif byte == MARK and state != PLAIN:
                if state == BEGIN and column < width:
                    marked[count, column] = True
                state = INSIDE
            else:
                state = PLAIN
            at += 1
        if at == size and not last:
            for i in range(width):
                marked[count, i] = False
            break
        if at - place > longest:
            start, column = at, 0
        end = at
        if end > start and data[end - 1] == RETURN and state != INSIDE:
            end -= 1
        for i in range(column, width):
            begins[count, i] = start if i == column else end
            ends[count, i] = end
        count += 1
        place = at + 1
    return count, min(place, size)


def find_end(data: bytes | Bytes, size: int, delimiter: int, state: int) -> tuple[int, int]:
    """Where the record that began before ends: the place behind its line end, or -1; and the state to go on with."""
    for at in range(size):
        byte = data[at]
        if state == INSIDE:
            if byte == MARK:
                state = CLOSED
        elif byte == delimiter:
            state = BEGIN
        elif byte == LINE:
            return at + 1, BEGIN
        elif byte == MARK and state != PLAIN:
            state = INSIDE
        else:
            state = PLAIN
    return -1, state


def copy_fields(
    data: bytes | Bytes, begins: Places, ends: Places, marked: Bools, into: Bytes, offsets: Places
) -> None:
    """Writes the texts of one column one after the other, without their quotation marks, and where each begins."""
    to = 0
    for row in range(begins.shape[0]):
        offsets[row] = to
        begin, end = begins[row], ends[row]
        if not marked[row]:
            for at in range(begin, end):
                into[to] = data[at]
                to += 1
            continue
        state = INSIDE
        for at in range(begin + 1, end):
            byte = data[at]
            if byte == MARK and state == INSIDE:
                state = CLOSED
                continue
            if state == CLOSED:
                state = INSIDE if byte == MARK else PLAIN
            into[to] = byte
            to += 1
    offsets[begins.shape[0]] = to
