// x with the first lengths[i] rows along one of its first two axes in reverse order, for each i of the other.
//
// x and y are [first][second][inner], elements of any type. A ticket is a run of rows of y, of `inner` elements.
//
// inp, lengths, out    lengths are of 8 bytes; more than there are rows: all rows
// inner                elements of a row;  itemsize: bytes of one: 1, 2, 4 or 8
// first, second        sizes;  time: which of the two axes is reversed, 0 or 1;  ticket_rows: rows of a ticket
#include "neighbours.clh"

#define REVERSE(T) \
  NOINLINE static void reverse_##T(__global const char* from, __global const long* lengths, __global char* to, \
                                   __global const reverse_rows_desc* d, const int begin, const int end) { \
    const int first = d->first, second = d->second, time = d->time, size = time ? second : first; \
    const long inner = d->inner; \
    __global const T* x = (__global const T*)from; \
    __global T* restrict y = (__global T*)to + begin * inner; \
    int a = begin / second, b = begin - a * second; \
    for (int r = begin; r < end; r++, y += inner) { \
      const long length = min(lengths[time ? a : b], (long)size); \
      const int at = time ? b : a, place = at < length ? (int)length - 1 - at : at; \
      __global const T* restrict row = x + (time ? (long)a * second + place : (long)place * second + b) * inner; \
      if (inner == 1) \
        y[0] = row[0]; \
      else \
        copy_neighbours((__global const char*)row, (__global char*)y, inner * sizeof(T)); \
      if (++b == second) b = 0, a++; \
    } \
  }
REVERSE(uchar)
REVERSE(ushort)
REVERSE(uint)
REVERSE(ulong)

static void reverse_rows(__global const reverse_rows_desc* d, __global char** banks, __global char* scratch,
                         const int ticket, __global const post_step* post, const int posts) {
  const int begin = ticket * d->ticket_rows, end = min(begin + d->ticket_rows, d->first * d->second);
  __global const char* x = AT(const char, banks, d->inp);
  __global const long* lengths = AT(const long, banks, d->lengths);
  __global char* y = AT(char, banks, d->out);
  if (d->itemsize == 4) reverse_uint(x, lengths, y, d, begin, end);
  else if (d->itemsize == 8) reverse_ulong(x, lengths, y, d, begin, end);
  else if (d->itemsize == 2) reverse_ushort(x, lengths, y, d, begin, end);
  else reverse_uchar(x, lengths, y, d, begin, end);
}
#undef REVERSE
