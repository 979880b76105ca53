// A plain tensor of up to four axes packed into a format of blocks on any axes: weights, matrices, biases.
//
//   out[i0 i1 i2 i3][j0][j1][j2][j3] = in[i_a * block_a + j_a along each axis a], 0 beyond the axis' size
//
// with the outer indices in the order of the format's axes and the inner ones in the order of its blocks; an axis without
// blocks has block 1. A ticket is a run of outer positions.
//
// inp, out                  floats
// size_a, block_a, pitch_a  elements along axis a, in a block, floats from one to the next in the input
// order                     nibble k: the axis that stands k-th among the outer indices
// inner                     nibble k: the axis that stands k-th among the inner indices (axes of block 1 anywhere)
// positions, ticket_positions   outer positions in all, of a ticket
#include "tile.clh"

static void pack_blocks(__global const pack_blocks_desc* d, __global char** banks, __global char* scratch,
                        const int ticket, __global const post_step* post, const int posts) {
  const int size[4] = {d->size_0, d->size_1, d->size_2, d->size_3};
  const int block[4] = {d->block_0, d->block_1, d->block_2, d->block_3};
  const long pitch[4] = {d->pitch_0, d->pitch_1, d->pitch_2, d->pitch_3};
  const int last = min((ticket + 1) * d->ticket_positions, d->positions);
  const int volume = block[0] * block[1] * block[2] * block[3];
  int inner[4];
  for (int k = 0; k < 4; k++) inner[k] = (d->inner >> (4 * k)) & 15;
  __global const float* in = AT(const float, banks, d->inp);
  __global float* to = AT(float, banks, d->out) + (long)ticket * d->ticket_positions * volume;

  for (int position = ticket * d->ticket_positions; position < last; position++) {
    int left[4], rest = position;
    long from = 0;
    for (int k = 3; k >= 0; k--) {
      const int axis = (d->order >> (4 * k)) & 15, count = (size[axis] + block[axis] - 1) / block[axis];
      const int at = rest % count * block[axis];
      rest /= count;
      from += at * pitch[axis];
      left[axis] = min(block[axis], size[axis] - at);
    }
    const int a = inner[0], b = inner[1], c = inner[2], e = inner[3];
    for (int i = 0; i < block[a]; i++)
      for (int j = 0; j < block[b]; j++)
        for (int k = 0; k < block[c]; k++) {
          __global const float* p = in + from + i * pitch[a] + j * pitch[b] + k * pitch[c];
          const int present = i < left[a] && j < left[b] && k < left[c] ? left[e] : 0;
          const long step = pitch[e];
          for (int l = 0; l < present; l++) to[l] = p[l * step];
          for (int l = present; l < block[e]; l++) to[l] = 0.0f;
          to += block[e];
        }
  }
}
