// 1x1 convolution of blocked tensors by one level of Strassen's algorithm: seven products for eight.
//
// A ticket is a range of chunks by a range of output groups of one image. A chunk is `wide` pixels of a pair of rows; a group
// is 2 nb blocks of 16 output channels. strassen_sums_fsv16.cl has added up the input's rows and channels before.
//
// inp, sums, weights, bias, out, res   bias (16 floats a block) and res may be CLGRAPH_NULL
// in_n, in_c, in_y, out_n, out_c, out_y, res_n, res_c, res_y   floats from one image, channel block, row to the next
// height, width         of the result;  top, bottom, left, right: its halo
// runs, copied          channel blocks of half the input; whether sums hold copies of the input, too
// nb, groups, ticket_groups    blocks of half a group; groups in all, of a ticket
// wide, row_chunks      pixels of a chunk, chunks of a pair of rows
// chunks, ticket_chunks, spans   of an image, of a ticket; tickets side by side over the chunks
// batch_tickets         tickets of one image
// id                    instance of micro_strassen with `wide` pixels
// lines                 cache lines fetched of the next group's weights with each run of 16 channels; 0: none
// far                   1: what is read and written comes from beyond the core's own cache and is fetched ahead
// low, high             bounds of the result, after the residual
//
// Error as in micro_strassen.cl. Post-operations follow on each chunk.
#include "fsv16.clh"

static void strassen_fsv16(__global const strassen_fsv16_desc* d, __global char** banks, __global char* scratch,
                           const int ticket, __global const post_step* post, const int posts) {
  const int n = ticket / d->batch_tickets, within = ticket - n * d->batch_tickets;
  const int tier = within / d->spans, span = within - tier * d->spans;
  const int last_group = min((tier + 1) * d->ticket_groups, d->groups);
  const int first_chunk = span * d->ticket_chunks, last_chunk = min(first_chunk + d->ticket_chunks, d->chunks);
  const int copied = d->copied, products = copied ? 7 : 4, runs = d->runs, wide = d->wide, blocks = 2 * d->nb, row_chunks = d->row_chunks;
  const long group = 7L * runs * 16 * d->nb * 16;
  __global const float* in = AT(const float, banks, d->inp) + (long)n * d->in_n;
  __global const float* sums = AT(const float, banks, d->sums) + (long)n * d->chunks * products * runs * wide * 16;
  for (int g = tier * d->ticket_groups; g < last_group; g++) {
    __global const float* wp = AT(const float, banks, d->weights) + g * group;
    __global const float* ahead = wp + (g + 1 < d->groups ? group : 0);
    __global float* out = AT(float, banks, d->out) + (long)n * d->out_n + (long)g * blocks * d->out_c;
    __global const float *bias = 0, *res = 0;
    if (d->bias != CLGRAPH_NULL) bias = AT(const float, banks, d->bias) + g * blocks * 16;
    if (d->res != CLGRAPH_NULL) res = AT(const float, banks, d->res) + (long)n * d->res_n + (long)g * blocks * d->res_c;
    // The groups after a ticket's first find its pixels near.
    const int near = d->far * (g == tier * d->ticket_groups ? 2 : 1);
    for (int chunk = first_chunk; chunk < last_chunk; chunk++) {
      const int y = 2 * (chunk / row_chunks), x = (chunk - y / 2 * row_chunks) * wide;
      micro_strassen(d->id, in + (long)y * d->in_y + x * 16, d->in_c, d->in_y, runs,
                     sums + (long)chunk * products * runs * wide * 16, copied, wp, bias,
                     res ? res + (long)y * d->res_y + x * 16 : 0, d->res_c, d->res_y, out + (long)y * d->out_y + x * 16, d->out_c, d->out_y, d->low, d->high,
                     (__global float*)scratch, near, ahead, d->lines);
      ahead += 7L * runs * d->lines * 16;
      for (int b = 0; b < blocks; b++)
        for (int row = y; row < y + 2; row++) {
          __global float* plane = out + (long)b * d->out_c;
          if (posts)
            post_row(post, posts, banks, plane + (long)row * d->out_y + x * 16, n, g * blocks + b, row, x, wide, 16, 1);
          zero_halo(plane, d->out_y, row, x, wide, d->height, d->width, d->top, d->bottom, d->left, d->right);
        }
    }
  }
}
