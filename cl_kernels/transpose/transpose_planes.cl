// Planes of a plain tensor with rows and columns exchanged: out[n][y][j][i] = in[n][y][i][j]. A ticket is a run of strips,
// a strip 16 rows of the output's plane.
//
// inp, in_n, in_y, in_i     floats from one n, y, row i of the input to the next; columns are neighbours
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
    __global const float* in = AT(const float, banks, d->inp) + (long)n * d->in_n + (long)y * d->in_y + j;
    __global float* out = AT(float, banks, d->out) + (long)n * d->out_n + (long)y * d->out_y + (long)j * d->out_j;
    for (int i = 0; i < d->rows; i += 16)
      transpose_tile(in + (long)i * d->in_i, d->in_i, out + i, d->out_j, min(16, d->rows - i), min(16, d->columns - j), 0);
  }
}
