// Rows of dense plain tensors picked by an index each: y[n][i] = x[n][indices[i]], rows of `width` 4-byte words.
//
// A negative index counts from the back, then it is clamped. A ticket is a run of rows of y.
//
// inp, rows    [images][rows][width];  out: [images][count][width]
// index, wide  count indices, of 8 bytes (wide) or 4
// images, count, width   sizes;  ticket_rows: rows of a ticket
// by_column              1: width is 1 or 2, and a ticket is a run of whole images, whose rows of one index are moved together
#include "neighbours.clh"

// Rows of one or two words of a run of images, which lie `from_pitch` and `to_pitch` words apart.
NOINLINE static void gather_column(__global const uint* restrict from, const long from_pitch, __global uint* restrict to,
                                   const long to_pitch, const int width, const int n) {
  if (width == 1)
    for (int k = 0; k < n; k++) to[k * to_pitch] = from[k * from_pitch];
  else
    for (int k = 0; k < n; k++) vstore2(vload2(0, from + k * from_pitch), 0, to + k * to_pitch);
}

static long row_of(__global const gather_rows_desc* d, __global char** banks, const int i) {
  const long wanted = d->wide ? AT(const long, banks, d->index)[i] : (long)(AT(const int, banks, d->index)[i]);
  return clamp(wanted < 0 ? wanted + d->rows : wanted, 0L, (long)d->rows - 1);
}

static void gather_rows(__global const gather_rows_desc* d, __global char** banks, __global char* scratch, const int ticket,
                        __global const post_step* post, const int posts) {
  const int first = ticket * d->ticket_rows, last = min(first + d->ticket_rows, d->images * d->count), width = d->width;
  const long image = (long)d->rows * width;
  if (d->by_column) {
    const int n = first / d->count, images = last / d->count - n;
    for (int i = 0; i < d->count; i++)
      gather_column(AT(const uint, banks, d->inp) + n * image + row_of(d, banks, i) * width, image,
                    AT(uint, banks, d->out) + ((long)n * d->count + i) * width, (long)d->count * width, width, images);
    return;
  }
  for (int r = first; r < last; r++) {
    const int n = r / d->count, i = r - n * d->count;
    __global const uint* from = AT(const uint, banks, d->inp) + n * image + row_of(d, banks, i) * width;
    copy_neighbours((__global const char*)from, (__global char*)(AT(uint, banks, d->out) + (long)r * width), 4l * width);
  }
}
