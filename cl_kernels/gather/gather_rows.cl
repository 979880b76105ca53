// Rows of dense plain tensors picked by an index each: y[n][i] = x[n][indices[i]], rows of `width` 4-byte words.
//
// A negative index counts from the back, then it is clamped. A ticket is a run of rows of y.
//
// inp, rows    [images][rows][width];  out: [images][count][width]
// index, wide  count indices, of 8 bytes (wide) or 4
// images, count, width   sizes;  ticket_rows: rows of a ticket
#include "tile.clh"

static void gather_rows(__global const gather_rows_desc* d, __global char** banks, __global char* scratch, const int ticket,
                        __global const post_step* post, const int posts) {
  const int last = min((ticket + 1) * d->ticket_rows, d->images * d->count), width = d->width;
  for (int r = ticket * d->ticket_rows; r < last; r++) {
    const int n = r / d->count, i = r - n * d->count;
    const long wanted = d->wide ? AT(const long, banks, d->index)[i] : (long)(AT(const int, banks, d->index)[i]);
    const long row = clamp(wanted < 0 ? wanted + d->rows : wanted, 0L, (long)d->rows - 1);
    __global const uint* from = AT(const uint, banks, d->inp) + ((long)n * d->rows + row) * width;
    __global uint* to = AT(uint, banks, d->out) + (long)r * width;
    const int whole = width / 16;
    for (int j = 0; j < whole; j++) vstore16(vload16(j, from), j, to);
    for (int j = whole * 16; j < width; j++) to[j] = from[j];
  }
}
