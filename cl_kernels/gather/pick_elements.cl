// Elements of any size at places that are data: y[i...] = x[i..., places of i..., i...], for all gathers.
//
// The result is walked in rows, its last axis, along the others in order. An element's place in x is the sum of its row's, of
// its own along the row, and of `depth` coordinates, each times its pitch. A negative coordinate counts from the back, then
// it is clamped. A ticket is a run of pieces, a piece at most `piece` elements of a row. The places of up to ROWS rows that
// have one each are found together.
//
// inp, index, out             out is dense
// in_0 .. in_5                elements of x from one index of an axis of the result to the next
// index_0 .. index_5          the same of the first coordinate; index_5 is 0 where a row has one place
// size_0 .. size_5            sizes of the axes of x that the coordinates are for;  place_0 .. place_5: elements from one to the next
// coordinate                  indices from one coordinate to the next;  depth: how many there are
// wide                        indices of 8 bytes, else 4
// itemsize                    bytes of an element: 1, 2, 4 or 8
// count_1 .. count_4, width   sizes of the result's axes behind the first
// piece, row_pieces           elements of a piece, pieces of a row;  pieces, ticket_pieces: in all, of a ticket
#include "neighbours.clh"
#include "places.clh"

#define ROWS 256

#define PICK(T) \
  NOINLINE static void pick_##T(__global const char* from, const long in, __global const int* restrict at, \
                                __global char* to, const int n) { \
    __global const T* restrict x = (__global const T*)from; \
    __global T* restrict y = (__global T*)to; \
    if (!at) { \
      for (int i = 0; i < n; i++) y[i] = x[i * in]; \
    } else if (in == 0) { \
      for (int i = 0; i < n; i++) y[i] = x[at[i]]; \
    } else { \
      for (int i = 0; i < n; i++) y[i] = x[i * in + at[i]]; \
    } \
  }
PICK(uchar)
PICK(ushort)
PICK(uint)
PICK(ulong)

// `count` rows of `bytes` bytes; row i begins at[i] + i * pitch elements of `size` bytes behind `from`.
NOINLINE static void pick_rows(__global const char* from, const long pitch, __global const int* restrict at, __global char* to,
                               const int count, const int bytes, const int size) {
  for (int i = 0; i < count; i++, to += bytes) {
    __global const char* source = from + (at[i] + i * pitch) * size;
    if (bytes == 32) *(__global bytes_32*)to = *(__global const bytes_32*)source;
    else if (bytes == 16) *(__global bytes_16*)to = *(__global const bytes_16*)source;
    else copy_neighbours(source, to, bytes);
  }
}

static void pick_elements(__global const pick_elements_desc* d, __global char** banks, __global char* scratch,
                          const int ticket, __global const post_step* post, const int posts) {
  const int last = min((ticket + 1) * d->ticket_pieces, d->pieces), size = d->itemsize;
  __global int* at = (__global int*)scratch;
  __global const char* index = AT(const char, banks, d->index);
  for (int p = ticket * d->ticket_pieces; p < last; p++) {
    int row = d->row_pieces > 1 ? p / d->row_pieces : p;
    const int x = (p - row * d->row_pieces) * d->piece, n = min(d->piece, d->width - x);
    const long to = (long)row * d->width + x;
    long from = x * d->in_5, with = x * d->index_5;
    const int abreast = d->index_5 == 0 && d->in_5 == 1 && d->row_pieces == 1 && d->count_4 > 1
                            ? min(min(last - p, d->count_4 - row % d->count_4), ROWS)
                            : 1;
#define AXIS(k) \
  if (d->count_##k > 1) { \
    const int above = row / d->count_##k, i = row - above * d->count_##k; \
    from += i * d->in_##k, with += i * d->index_##k; \
    row = above; \
  }
    AXIS(4)
    AXIS(3)
    AXIS(2)
    AXIS(1)
    from += row * d->in_0, with += row * d->index_0;
    if (abreast > 1) {
      places(index, d->wide, with, d->index_4, d->coordinate, d->depth, &d->size_0, &d->place_0, 1, at, abreast);
      pick_rows(AT(const char, banks, d->inp) + from * size, d->in_4, at, AT(char, banks, d->out) + to * size, abreast, n * size,
                size);
      p += abreast - 1;
      continue;
    }
    const int one = d->index_5 == 0;
    places(index, d->wide, with, d->index_5, d->coordinate, d->depth, &d->size_0, &d->place_0, 1, at, one ? 1 : n);
    if (one) from += at[0];
    __global const char* source = AT(const char, banks, d->inp) + from * size;
    __global char* target = AT(char, banks, d->out) + to * size;
    __global const int* each = one ? 0 : at;
    if (one && d->in_5 == 1)
      copy_neighbours(source, target, (long)n * size);
    else if (size == 4)
      pick_uint(source, d->in_5, each, target, n);
    else if (size == 8)
      pick_ulong(source, d->in_5, each, target, n);
    else if (size == 2)
      pick_ushort(source, d->in_5, each, target, n);
    else
      pick_uchar(source, d->in_5, each, target, n);
  }
}
#undef AXIS
#undef ROWS
