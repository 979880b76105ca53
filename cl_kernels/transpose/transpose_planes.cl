// Planes of a plain tensor with rows and columns exchanged: out[n][y][j][i] = in[n][y][i][j]. A ticket is a run of strips,
// a strip 16 rows of the output's plane.
//
// itemsize                  bytes of an element: 8, 4, 2 or 1
// inp, in_n, in_y, in_i     elements from one n, y, row i of the input to the next; columns are neighbours
// out, out_n, out_y, out_j  the output's; its columns are neighbours
// planes_y                  planes of one n
// rows, columns             i and j of the input
// strips, strips_total, ticket_strips   strips of a plane, in all, of a ticket
#include "transpose.clh"

static void transpose_planes(__global const transpose_planes_desc* d, __global char** banks, __global char* scratch,
                             const int ticket, __global const post_step* post, const int posts) {
  const int last = min((ticket + 1) * d->ticket_strips, d->strips_total);
  for (int s = ticket * d->ticket_strips; s < last; s++) {
    const int plane = s / d->strips, j = (s - plane * d->strips) * 16, n = plane / d->planes_y, y = plane - n * d->planes_y;
    const long from = n * d->in_n + y * d->in_y + j, to = n * d->out_n + y * d->out_y + j * d->out_j, pitch = d->in_i;
    const int columns = min(16, d->columns - j);
    __global const char* in = AT(const char, banks, d->inp) + from * d->itemsize;
    __global char* out = AT(char, banks, d->out) + to * d->itemsize;
    for (int i = 0; i < d->rows; i += 16) {
      const int rows = min(16, d->rows - i);
      if (d->itemsize == 4)
        transpose_tile((__global const float*)in + i * pitch, pitch, (__global float*)out + i, d->out_j, rows, columns, 0);
      else if (d->itemsize == 8)
        turn_ulong((__global const ulong*)in + i * pitch, pitch, (__global ulong*)out + i, d->out_j, rows, columns);
      else if (d->itemsize == 2)
        turn_ushort((__global const ushort*)in + i * pitch, pitch, (__global ushort*)out + i, d->out_j, rows, columns);
      else
        turn_uchar((__global const uchar*)in + i * pitch, pitch, (__global uchar*)out + i, d->out_j, rows, columns);
    }
  }
}
