// Elements of any size moved between two views of up to six axes, or one value written to a view.
//
// The views are walked in rows, the last axis, along the others in order. A ticket is a run of pieces, a piece at most `piece`
// elements of a row.
//
// inp, out                    inp may be CLGRAPH_NULL: then `value` is written
// value                       the bits of an element
// in_0 .. in_5, out_0 .. out_5     elements from one index of an axis to the next; negative ones go backwards, 0 stands still
// itemsize                    bytes of an element: 1, 2, 4 or 8
// count_1 .. count_4, width   sizes of the axes behind the first
// piece, row_pieces           elements of a piece, pieces of a row;  pieces, ticket_pieces: in all, of a ticket
// narrow                      1: rows are so short that those along the axis in front are moved together, element by element
#include "neighbours.clh"

#define TOGETHER 512  // rows that are moved together: what lies between their elements stays in the first-level cache

#define MOVE(T) \
  NOINLINE static void move_##T(__global const char* from, const long in, __global char* to, const long out, const int n) { \
    __global const T* restrict x = (__global const T*)from; \
    __global T* restrict y = (__global T*)to; \
    if (out != 1) { \
      for (int i = 0; i < n; i++) y[i * out] = x[i * in]; \
    } else if (in == 1) { \
      for (int i = 0; i < n; i++) y[i] = x[i]; \
    } else if (in == 0) { \
      const T v = x[0]; \
      for (int i = 0; i < n; i++) y[i] = v; \
    } else if (in == 2) { \
      for (int i = 0; i < n; i++) y[i] = x[i * 2]; \
    } else { \
      for (int i = 0; i < n; i++) y[i] = x[i * in]; \
    } \
  }
#define NARROW(T) \
  NOINLINE static void narrow_##T(__global const char* from, const long in_row, const long in, __global char* to, \
                                  const long out_row, const long out, const int rows, const int n) { \
    for (int j = 0; j < n; j++) { \
      __global const T* restrict x = (__global const T*)from + j * in; \
      __global T* restrict y = (__global T*)to + j * out; \
      for (int r = 0; r < rows; r++) y[r * out_row] = x[r * in_row]; \
    } \
  }
// Neighbours that change places, from[-1] and from[0] the first of them.
#define EXCHANGED(T) \
  NOINLINE static void exchanged_##T(__global const char* from, __global char* to, const int rows) { \
    __global const T* restrict x = (__global const T*)from - 1; \
    __global T* restrict y = (__global T*)to; \
    for (int r = 0; r < rows; r++) { \
      const T first = x[2 * r], second = x[2 * r + 1]; \
      y[2 * r] = second; \
      y[2 * r + 1] = first; \
    } \
  }
EXCHANGED(ushort)
EXCHANGED(uint)
NARROW(uchar)
NARROW(ushort)
NARROW(uint)
NARROW(ulong)
MOVE(uchar)
MOVE(ushort)
MOVE(uint)
MOVE(ulong)

static void move_elements(__global const move_elements_desc* d, __global char** banks, __global char* scratch,
                          const int ticket, __global const post_step* post, const int posts) {
  const int last = min((ticket + 1) * d->ticket_pieces, d->pieces);
  __global ulong* value = (__global ulong*)scratch;
  value[0] = (ulong)d->value;
  const int first = ticket * d->ticket_pieces;
  int row = first / d->row_pieces, part = first - row * d->row_pieces;
  // Counters of the axes behind the first, and the places where the row begins that they stand for.
  long from = 0, to = 0;
#define AXIS(k) \
  const int above_##k = row / d->count_##k; \
  int at_##k = row - above_##k * d->count_##k; \
  from += at_##k * d->in_##k, to += at_##k * d->out_##k; \
  row = above_##k;
  AXIS(4)
  AXIS(3)
  AXIS(2)
  AXIS(1)
  from += row * d->in_0, to += row * d->out_0;
  const long in = d->inp == CLGRAPH_NULL ? 0 : d->in_5, out = d->out_5;
  __global const char* source = d->inp == CLGRAPH_NULL ? (__global const char*)value : AT(const char, banks, d->inp);
  __global char* target = AT(char, banks, d->out);
  const int itemsize = d->itemsize;
  const long step = d->inp == CLGRAPH_NULL ? 0 : itemsize;
  for (int p = first; p < last;) {
    const int x = part * d->piece, n = min(d->piece, d->width - x);
    __global const char* a = source + (from + x * in) * step;
    __global char* b = target + (to + x * out) * itemsize;
    int done = 1;
    if (d->narrow) {
      const long in_row = d->inp == CLGRAPH_NULL ? 0 : d->in_4, out_row = d->out_4;
      done = min(min(last - p, d->count_4 - at_4), TOGETHER);
      // The same row again and again: one is moved, and what is there is copied behind itself.
      const int copies = in_row == 0 && out == 1 && out_row == n ? done : 1, rows = done / copies;
      if (n == 2 && in == -1 && in_row == 2 && out == 1 && out_row == 2 && itemsize == 4)
        exchanged_uint(a, b, done);
      else if (n == 2 && in == -1 && in_row == 2 && out == 1 && out_row == 2 && itemsize == 2)
        exchanged_ushort(a, b, done);
      else if (itemsize == 4)
        narrow_uint(a, in_row, in, b, out_row, out, rows, n);
      else if (itemsize == 8)
        narrow_ulong(a, in_row, in, b, out_row, out, rows, n);
      else if (itemsize == 2)
        narrow_ushort(a, in_row, in, b, out_row, out, rows, n);
      else
        narrow_uchar(a, in_row, in, b, out_row, out, rows, n);
      const long one = (long)n * itemsize;
      for (int made = 1; made < copies; made *= 2)
        copy_neighbours(b, b + made * one, min(made, copies - made) * one);
      at_4 += done - 1, from += (done - 1) * d->in_4, to += (done - 1) * d->out_4;
    } else if (in == 1 && out == 1)
      copy_neighbours(a, b, (long)n * itemsize);
    else if (itemsize == 4)
      move_uint(a, in, b, out, n);
    else if (itemsize == 8)
      move_ulong(a, in, b, out, n);
    else if (itemsize == 2)
      move_ushort(a, in, b, out, n);
    else
      move_uchar(a, in, b, out, n);
    p += done;
    if (++part < d->row_pieces) continue;
    part = 0;
#define NEXT(k, more) \
  from += d->in_##k, to += d->out_##k; \
  if (++at_##k == d->count_##k) { \
    from -= at_##k * d->in_##k, to -= at_##k * d->out_##k, at_##k = 0; \
    more \
  }
    NEXT(4, NEXT(3, NEXT(2, NEXT(1, from += d->in_0; to += d->out_0;))))
#undef NEXT
  }
}
#undef AXIS
#undef EXCHANGED
#undef NARROW
