// Planes of a plain tensor with rows and columns exchanged: out[n][y][j][i] = in[n][y][i][j]. A ticket is a run of strips,
// a strip some rows of the output's plane. Exact.
//
// itemsize                  bytes of an element: 8, 4, 2 or 1
// inp, in_n, in_y, in_i     elements from one n, y, row i of the input to the next; columns are neighbours
// out, out_n, out_y, out_j  the output's; its columns are neighbours
// planes_y                  planes of one n
// rows, columns             i and j of the input
// strip                     columns of a strip; those behind the last whole one are the last strip's, too
// strips, strips_total, ticket_strips   strips of a plane, in all, of a ticket
#include "turn_fours.clh"

// Planes that are dense where they have up to four rows or columns are interleaved or separated, those of fewer than sixteen
// turned four at a time; of others, tiles of 16 by 16. The last tile of a row or column begins earlier where it would be narrower.
#define STRIP(T, TILE) \
  static void strip_##T(__global const transpose_planes_desc* d, __global const T* in, __global T* out, const int first, \
                        const int last) { \
    const int rows = d->rows, columns = d->columns; \
    if (rows > 1 && rows <= 4 && d->out_j == rows) { \
      interleave_##T(in + first, d->in_i, out + first * rows, rows, last - first); \
      return; \
    } \
    if (columns > 1 && columns <= 4 && d->in_i == columns) { \
      separate_##T(in, out, d->out_j, rows, columns); \
      return; \
    } \
    if (min(rows, last - first) >= 4 && min(rows, last - first) < 16) { \
      turn_fours_##T(in + first, d->in_i, out + first * d->out_j, d->out_j, rows, last - first); \
      return; \
    } \
    for (int r = 0; r < rows; r += 16) \
      for (int c = first; c < last; c += 16) { \
        const int j = max(first, min(c, last - 16)), i = max(0, min(r, rows - 16)); \
        TILE(in + i * d->in_i + j, d->in_i, out + j * d->out_j + i, d->out_j, min(16, rows - i), min(16, last - j)); \
      } \
  }
#define TURN_UINT(from, from_pitch, to, to_pitch, rows, columns) \
  transpose_tile((__global const float*)(from), from_pitch, (__global float*)(to), to_pitch, rows, columns, 0)
STRIP(uchar, turn_uchar)
STRIP(ushort, turn_ushort)
STRIP(uint, TURN_UINT)
STRIP(ulong, turn_ulong)

static void transpose_planes(__global const transpose_planes_desc* d, __global char** banks, __global char* scratch,
                             const int ticket, __global const post_step* post, const int posts) {
  const int behind = min((ticket + 1) * d->ticket_strips, d->strips_total);
  const int begin = ticket * d->ticket_strips, plane = begin / d->strips;
  int part = begin - plane * d->strips, n = plane / d->planes_y, y = plane - n * d->planes_y;
  for (int s = begin; s < behind; s++) {
    const int first = part * d->strip, last = part + 1 < d->strips ? first + d->strip : d->columns;
    __global const char* in = AT(const char, banks, d->inp) + (n * d->in_n + y * d->in_y) * d->itemsize;
    __global char* out = AT(char, banks, d->out) + (n * d->out_n + y * d->out_y) * d->itemsize;
    if (d->itemsize == 4)
      strip_uint(d, (__global const uint*)in, (__global uint*)out, first, last);
    else if (d->itemsize == 8)
      strip_ulong(d, (__global const ulong*)in, (__global ulong*)out, first, last);
    else if (d->itemsize == 2)
      strip_ushort(d, (__global const ushort*)in, (__global ushort*)out, first, last);
    else
      strip_uchar(d, (__global const uchar*)in, (__global uchar*)out, first, last);
    if (++part < d->strips) continue;
    part = 0;
    if (++y == d->planes_y) y = 0, n++;
  }
}
