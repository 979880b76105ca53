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
#include "tile.clh"

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
MOVE(uchar)
MOVE(ushort)
MOVE(uint)
MOVE(ulong)

static void move_elements(__global const move_elements_desc* d, __global char** banks, __global char* scratch,
                          const int ticket, __global const post_step* post, const int posts) {
  const int last = min((ticket + 1) * d->ticket_pieces, d->pieces);
  __global ulong* value = (__global ulong*)scratch;
  value[0] = (ulong)d->value;
  for (int p = ticket * d->ticket_pieces; p < last; p++) {
    int row = p / d->row_pieces;
    const int x = (p - row * d->row_pieces) * d->piece, n = min(d->piece, d->width - x);
    long from = x * d->in_5, to = x * d->out_5;
#define AXIS(k) \
  { \
    const int above = row / d->count_##k, at = row - above * d->count_##k; \
    from += at * d->in_##k, to += at * d->out_##k; \
    row = above; \
  }
    AXIS(4)
    AXIS(3)
    AXIS(2)
    AXIS(1)
    from += row * d->in_0, to += row * d->out_0;
    __global const char* source = d->inp == CLGRAPH_NULL ? (__global const char*)value
                                                         : AT(const char, banks, d->inp) + from * d->itemsize;
    __global char* target = AT(char, banks, d->out) + to * d->itemsize;
    const long in = d->inp == CLGRAPH_NULL ? 0 : d->in_5;
    if (d->itemsize == 4)
      move_uint(source, in, target, d->out_5, n);
    else if (d->itemsize == 8)
      move_ulong(source, in, target, d->out_5, n);
    else if (d->itemsize == 2)
      move_ushort(source, in, target, d->out_5, n);
    else
      move_uchar(source, in, target, d->out_5, n);
  }
}
#undef AXIS
