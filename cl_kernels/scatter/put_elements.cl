// Updates put where data say, one after another in their order: y[place] = f(y[place], update), for all scatters.
//
// The updates are walked in lines, which touch different elements of y, a line step by step, a step along its width. The place
// of an update in y is the sum of its line's, of its own along the width, and of `depth` coordinates, each times its pitch. A
// negative coordinate counts from the back; an update outside of y is left out. A ticket is a run of pieces, a piece at most
// `piece` elements of the width of a line, all its steps.
//
// index, updates, out         y is a copy of x before
// index_0 .. index_3, index_step, index_x    indices from one line, step, element to the next; index_x is 0 where a step has one place
// from_0 .. from_3, from_step, from_x        the same of the updates;  to_0 .. to_3, to_x: of y
// size_0 .. size_5            sizes of the axes of y that the coordinates are for;  place_0 .. place_5: elements from one to the next
// coordinate                  indices from one coordinate to the next;  depth: how many there are
// wide                        indices of 8 bytes, else 4
// itemsize, type              bytes of an element; of sums and the like (element_types.clh): float, double, an integer
// operation                   0 the update, 1 sum, 2 product, 3 greatest, 4 least
// count_1 .. count_3, steps, width    sizes
// piece, row_pieces           elements of a piece, pieces of a line;  pieces, ticket_pieces: in all, of a ticket
//
// Error: one rounding an update; integers wrap.
#include "neighbours.clh"
#include "element_types.clh"
#include "places.clh"

#define EACH(T, e) \
  { \
    if (neighbours) { \
      for (int i = 0; i < n; i++) { \
        const T new = x[i], old = y[i]; \
        y[i] = (e); \
      } \
      return; \
    } \
    for (int i = 0; i < n; i++) { \
      if (at && at[i] < 0) continue; \
      __global T* to = y + (at ? i * out + at[i] : i * out); \
      const T new = x[i * in], old = *to; \
      *to = (e); \
    } \
    return; \
  }

#define PUT(T) \
  NOINLINE static void put_##T(__global const char* updates, const long in, __global const int* at, __global char* target, \
                               const long out, const int n) { \
    __global const T* x = (__global const T*)updates; \
    __global T* y = (__global T*)target; \
    for (int i = 0; i < n; i++) \
      if (!at || at[i] >= 0) y[at ? i * out + at[i] : i * out] = x[i * in]; \
  }
PUT(uchar)
PUT(ushort)
PUT(uint)
PUT(ulong)

// SUM and PRODUCT: of integers those of the unsigned ones, which wrap.
#define JOIN(T, SUM, PRODUCT) \
  NOINLINE static void join_##T(const int operation, __global const char* updates, const long in, __global const int* at, \
                                __global char* target, const long out, const int n) { \
    __global const T* restrict x = (__global const T*)updates; \
    __global T* restrict y = (__global T*)target; \
    const int neighbours = !at && in == 1 && out == 1; \
    switch (operation) { \
      case 1: EACH(T, SUM) \
      case 2: EACH(T, PRODUCT) \
      case 3: EACH(T, old >= new || old != old ? old : new) \
      case 4: EACH(T, old <= new || old != old ? old : new) \
    } \
  }
JOIN(float, old + new, old * new)
JOIN(int, (int)((uint)old + (uint)new), (int)((uint)old * (uint)new))
JOIN(long, (long)((ulong)old + (ulong)new), (long)((ulong)old * (ulong)new))
JOIN(char, (char)(old + new), (char)(old * new))
JOIN(uchar, (uchar)(old + new), (uchar)(old * new))
JOIN(short, (short)(old + new), (short)(old * new))
JOIN(ushort, (ushort)(old + new), (ushort)((uint)old * (uint)new))
#ifdef cl_khr_fp64
JOIN(double, old + new, old * new)
#endif

static void put(__global const put_elements_desc* d, __global const char* updates, const long in, __global const int* at,
                __global char* target, const long out, const int n) {
  const int operation = d->operation;
  if (operation == 0 && !at && in == 1 && out == 1) copy_neighbours(updates, target, (long)n * d->itemsize);
  else if (operation == 0 && d->itemsize == 4) put_uint(updates, in, at, target, out, n);
  else if (operation == 0 && d->itemsize == 8) put_ulong(updates, in, at, target, out, n);
  else if (operation == 0 && d->itemsize == 2) put_ushort(updates, in, at, target, out, n);
  else if (operation == 0) put_uchar(updates, in, at, target, out, n);
  else if (d->type == TYPE_F32) join_float(operation, updates, in, at, target, out, n);
  else if (d->type == TYPE_I32) join_int(operation, updates, in, at, target, out, n);
  else if (d->type == TYPE_I64) join_long(operation, updates, in, at, target, out, n);
  else if (d->type == TYPE_I8) join_char(operation, updates, in, at, target, out, n);
  else if (d->type == TYPE_U8) join_uchar(operation, updates, in, at, target, out, n);
  else if (d->type == TYPE_I16) join_short(operation, updates, in, at, target, out, n);
  else if (d->type == TYPE_U16) join_ushort(operation, updates, in, at, target, out, n);
#ifdef cl_khr_fp64
  else join_double(operation, updates, in, at, target, out, n);
#endif
}

// `count` rows of `n` elements, row i at[i] elements behind `target`; its updates lie from_step elements behind the last ones.
NOINLINE static void put_rows(__global const put_elements_desc* d, __global const char* updates, __global const int* restrict at,
                              __global char* target, const int count, const int n) {
  const long size = d->itemsize, pitch = d->from_step * size, bytes = n * size;
  const int copies = d->operation == 0 && d->from_x == 1 && d->to_x == 1;
  for (int i = 0; i < count; i++, updates += pitch) {
    if (at[i] < 0) continue;
    __global char* to = target + at[i] * size;
    if (!copies) put(d, updates, d->from_x, 0, to, d->to_x, n);
    else if (bytes == 32) *(__global bytes_32*)to = *(__global const bytes_32*)updates;
    else if (bytes == 16) *(__global bytes_16*)to = *(__global const bytes_16*)updates;
    else copy_neighbours(updates, to, bytes);
  }
}

static void put_elements(__global const put_elements_desc* d, __global char** banks, __global char* scratch,
                         const int ticket, __global const post_step* post, const int posts) {
  const int last = min((ticket + 1) * d->ticket_pieces, d->pieces), size = d->itemsize;
  __global int* at = (__global int*)scratch;
  __global const char* index = AT(const char, banks, d->index);
  __global const char* updates = AT(const char, banks, d->updates);
  for (int p = ticket * d->ticket_pieces; p < last; p++) {
    int line = p / d->row_pieces;
    const int x = (p - line * d->row_pieces) * d->piece, n = min(d->piece, d->width - x);
    long with = x * d->index_x, from = x * d->from_x, to = x * d->to_x;
#define AXIS(k) \
  if (d->count_##k > 1) { \
    const int above = line / d->count_##k, i = line - above * d->count_##k; \
    with += i * d->index_##k, from += i * d->from_##k, to += i * d->to_##k; \
    line = above; \
  }
    AXIS(3)
    AXIS(2)
    AXIS(1)
    with += line * d->index_0, from += line * d->from_0, to += line * d->to_0;
    __global char* target = AT(char, banks, d->out) + to * size;
    // A width of one: the steps are as many updates of one line. Where a step has one place, those of many are found together.
    const int along = d->width == 1, one = !along && d->index_x == 0, run = along || one ? d->piece : 1;
    for (int s = 0; s < d->steps; s += run) {
      const int m = along || one ? min(run, d->steps - s) : n;
      places(index, d->wide, with + s * d->index_step, along || one ? d->index_step : d->index_x, d->coordinate, d->depth,
             &d->size_0, &d->place_0, 0, at, m);
      __global const char* of_step = updates + (from + s * d->from_step) * size;
      if (one) put_rows(d, of_step, at, target, m, n);
      else put(d, of_step, along ? d->from_step : d->from_x, at, target, along ? 0 : d->to_x, m);
    }
  }
}
#undef AXIS
#undef EACH
