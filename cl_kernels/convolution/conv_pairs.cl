// Convolution of pixels of bfloat16, in floats, into a blocked tensor (b_fs_yx_fsv16). A ticket is a run of chunks, parts of
// an output row, by a run of groups of 64 output channels, of one image.
//
// a, a_n, a_y, a_x       pixels as bfloat_pixels.cl writes them; elements from one image, output row's, output pixel's
//                        window to the next
// weights, weight_group  [o / 64][kernel_y][kernel_x][c / 2][64][2] with zeros behind the last channel; elements of a group
// pairs, runs_x, runs_y, run_x, run_y   as in micro_pairs.cl: neighbours in a window, by 2, and runs of them
// bias, res              16 floats a block, planes; CLGRAPH_NULL for none
// out_n, out_c, out_y, res_n, res_c, res_y   pitches in floats
// height, width          of the output;  top, bottom, left, right: its halo
// blocks, lanes          output blocks, channels of the last one
// chunks, row_chunks     chunks in all, in one row, about equally long
// ticket_chunks, ticket_groups, groups, spans, batch_tickets   of one ticket; groups in all; tickets side by side over the
//                        chunks, tickets of one image
// wide                   pixels of a chunk; 0: those of a row are about equally long
// first_id               id of the one-row instance, neighbours follow
// tiles_id               id of the instance of tile registers, which has any pixels; -1: it is not used
// fetched                elements of the next group fetched with each pair; 0: none
// low, high              bounds of the result, after the residual
//
// Error as in micro_pairs.cl, one rounding each for bias and residual. Post-operations follow on each chunk.
#include "amx.clh"
#include "conv_chunks.clh"
#include "fsv16.clh"

static void conv_pairs(__global const conv_pairs_desc* d, __global char** banks, __global char* scratch,
                       const int ticket, __global const post_step* post, const int posts) {
  const int n = ticket / d->batch_tickets, within = ticket - n * d->batch_tickets;
  const int tier = within / d->spans, span = within - tier * d->spans;
  const int last_group = min((tier + 1) * d->ticket_groups, d->groups);
  const int first_chunk = span * d->ticket_chunks, last_chunk = min(first_chunk + d->ticket_chunks, d->chunks);
  const int row_chunks = d->row_chunks, width = d->width;
  __global const ushort* a = AT(const ushort, banks, d->a) + (long)n * d->a_n;
  if (d->tiles_id >= 0) TILES_BEGIN;
  for (int g = tier * d->ticket_groups; g < last_group; g++) {
    const int block = g * 4, nb = min(4, d->blocks - block);
    __global const float *bias = 0, *res = 0;
    if (d->bias != CLGRAPH_NULL) bias = AT(const float, banks, d->bias) + block * 16;
    if (d->res != CLGRAPH_NULL) res = AT(const float, banks, d->res) + (long)n * d->res_n + (long)block * d->res_c;
    __global float* out = AT(float, banks, d->out) + (long)n * d->out_n + (long)block * d->out_c;
    __global const ushort* w = AT(const ushort, banks, d->weights) + (long)g * d->weight_group;
    __global const ushort* next = w + (d->fetched && g + 1 < d->groups ? d->weight_group : 0);
    for (int chunk = first_chunk; chunk < last_chunk; chunk++) {
      const int y = chunk / row_chunks, part = chunk - y * row_chunks;
      const int x0 = chunk_start(part, row_chunks, d->wide, width);
      const int count = chunk_start(part + 1, row_chunks, d->wide, width) - x0;
      __global float* to = out + (long)y * d->out_y + x0 * 16;
      micro_pairs(d->tiles_id >= 0 ? d->tiles_id : d->first_id + count - 1, a + (long)y * d->a_y + (long)x0 * d->a_x, d->a_x, w,
                  bias, res ? res + (long)y * d->res_y + x0 * 16 : 0, d->res_c, to, 16, d->out_c, count, nb * 16, d->pairs, d->runs_x,
                  d->runs_y, d->run_x, d->run_y, d->low, d->high, next, d->fetched);
      next += (long)d->fetched * d->pairs * d->runs_x * d->runs_y;
      for (int b = 0; b < nb; b++) {
        if (posts)
          post_row(post, posts, banks, to + (long)b * d->out_c, n, block + b, y, x0, count,
                   block + b == d->blocks - 1 ? d->lanes : 16, 1);
        zero_halo(out + (long)b * d->out_c, d->out_y, y, x0, count, d->height, width, d->top, d->bottom, d->left, d->right);
      }
    }
  }
  if (d->tiles_id >= 0) TILES_END;
}
