// Winograd convolution F(4x4, 3x3) of blocked tensors (b_fs_yx_fsv16): 3x3 windows of any dilation, one group. With stride 2
// (no dilation then) it is F(2x2, 3x3), of 25 positions for 36 and 2x2 pixels for 4x4 (winograd_strided.clh).
//
// A ticket is a range of tile blocks by a range of output groups; a group is `nb` blocks of 16 output channels. For each
// of the 36 positions of a transformed tile the products of channels are a 1x1 convolution whose pixels are the tiles of a
// block (micro_conv.cl), kept in scratch; then each tile is transformed back into 4x4 pixels. The transformed input comes
// from winograd_input_fsv16.cl, or, where `inp` points at it, the ticket transforms its tiles into its scratch first.
//
// inp, v                   the window of pixel (0, 0), in a halo as wide as the last tiles reach, or CLGRAPH_NULL;
//                          the transformed input, or CLGRAPH_NULL
// weights                  [groups][36][channels, a multiple of 16][nb * 16], as winograd_weights makes them
// bias, out, res           bias (16 floats a block) and res may be CLGRAPH_NULL
// in_n, in_c, in_y, out_n, out_c, out_y, res_n, res_c, res_y    pitches in floats
// channels                 of the input, counted one by one
// tiles, image_tiles, tiles_x    tiles in all, of an image, of a row of tiles;  edge: pixels of the result along one, 4 or 2
// dilation, phase_rows     pixels from one element of the window to the next, and rows of tiles of a phase (winograd.clh)
// block_tiles, blocks, ticket_blocks    tiles of a block, blocks in all, of a ticket
// spans                    tickets side by side over the blocks of tiles;  groups, ticket_groups: of output channels
// v_position, v_block, m_position       floats from one position of v, one block of v, one position of the products on
// weight_position          floats of one position of one group
// lines                    cache lines a (position, tile block, channel block) prefetched of the weights; 0: none
// weight_ahead             floats from the weights in use to those prefetched, positions further on
// height, width, top, bottom, left, right, lanes, widths, ids_0, ids_1, low .. stepped: as in conv_fsv16.cl
//
// Error: |error| <= (n + 15) 2^-24 sum over c of |A^T| [ (|G| |g| |G^T|) . (|B^T| |d| |B|) ] |A| for n channels: one
// rounding of the weights, 6 of the input, n of the products, 8 of the way back; then one each for bias and residual. The
// sum is at most 27.5^2 max|g| max|d| a channel, 27.5 being the largest row of |A^T| diag(row sums of |G|, of |B^T|).
// With stride 2 it is n + 7 and 5^2: 2 roundings of the input, 4 of the way back.
// A value that is not finite reaches all 16 pixels of each tile that reads it. Post-operations follow on each row of tiles.
#include "float_end.clh"
#include "fsv16.clh"
#include "winograd.clh"

static void winograd_fsv16(__global const winograd_fsv16_desc* d, __global char** banks, __global char* scratch,
                           const int ticket, __global const post_step* post, const int posts) {
  const int tier = ticket / d->spans, span = ticket - tier * d->spans;
  const int first = span * d->ticket_blocks, last = min(first + d->ticket_blocks, d->blocks);
  const int last_group = min((tier + 1) * d->ticket_groups, d->groups);
  const int edge = d->edge, dilation = d->dilation, positions = edge == 4 ? 36 : 25;
  const int nb = d->nb, size = d->block_tiles, planes = (d->channels + 15) / 16;
  const int first_tile = first * size, last_tile = min(last * size, d->tiles);
  const float_end none = FLOAT_END_NONE, ended = FLOAT_END_OF(d);
  const long v_position = d->v_position, v_block = d->v_block, m_position = d->m_position;

  __global float* m = (__global float*)scratch;
  __global float* v = m + positions * m_position;
  if (d->inp != CLGRAPH_NULL) {
    for (int t = first; t < last; t++)
      winograd_block(AT(const float, banks, d->inp), d->in_n, d->in_c, d->in_y, d->image_tiles, d->tiles_x, dilation,
                     d->phase_rows, edge, t * size, min(size, last_tile - t * size), 0, planes, v + (t - first) * v_block,
                     size, v_position);
  } else {
    v = AT(float, banks, d->v) + first * v_block;
  }

  for (int g = tier * d->ticket_groups; g < last_group; g++) {
    __global const float* weights = AT(const float, banks, d->weights);
    __global const float* end = weights + (long)(positions * d->groups - 1) * d->weight_position;
    weights += (long)g * positions * d->weight_position;
    for (int p = 0; p < positions; p++, weights += d->weight_position) {
      __global const float* ahead = weights + d->weight_ahead;
      if (ahead > end) ahead = end;
      for (int t = first; t < last; t++) {
        const int count = min(size, last_tile - t * size);
        __global const float* in = v + (t - first) * v_block + p * v_position;
        __global float* to = m + p * m_position + (long)(t - first) * nb * size * 16;
        __global const float* next = ahead + (long)(t - first) * planes * d->lines * 16;
        for (int i = 0; i < count;) {
          const int most = min(count - i, 15), wide = (int)(d->widths >> (4 * most)) & 15;
          const int id = (int)((wide < 8 ? d->ids_0 : d->ids_1) >> (8 * (wide & 7))) & 255;
          micro_conv(id, in + i * 16, weights, 0, 0, to + i * 16, nb, d->channels, 0, 1, 1, size * 16, 0, 0, 16,
                     size * 16, 0, 1, 0, 0, 0, &none, 0, next, i == 0 ? d->lines : 0);
          i += wide;
        }
      }
    }
    for (int b = 0; b < nb; b++) {
      const int block = g * nb + b;
      __global const float *bias = 0, *res = 0;
      if (d->bias != CLGRAPH_NULL) bias = AT(const float, banks, d->bias) + block * 16;
      if (d->res != CLGRAPH_NULL) res = AT(const float, banks, d->res) + (long)block * d->res_c;
      __global float* out = AT(float, banks, d->out) + (long)block * d->out_c;
      for (int tile = first_tile; tile < last_tile;) {
        const int n = tile / d->image_tiles, within = tile - n * d->image_tiles, ty = within / d->tiles_x;
        const int tx = within - ty * d->tiles_x, run = min(d->tiles_x - tx, last_tile - tile);
        const int2 at = winograd_row(ty, dilation, d->phase_rows, edge);
        const int y0 = at.y, x0 = at.x + dilation * edge * tx;
        const int y1 = min(y0 + dilation * edge, d->height), x1 = min(x0 + dilation * edge * run, d->width);
        const int rows = (y1 - y0 + dilation - 1) / dilation;
        __global float* plane = out + (long)n * d->out_n;
        __global const float* other = res ? res + (long)n * d->res_n + (long)y0 * d->res_y : 0;
        for (int i = 0; i < run; i++) {
          const int place = tile + i - first_tile, inside = place / size, x = x0 + dilation * edge * i;
          const int columns = (d->width - x + dilation - 1) / dilation;
          __global const float* from = m + (long)((inside * nb + b) * size + place - inside * size) * 16;
          __global const float* operand = other ? other + x * 16 : 0;
          __global float* to = plane + (long)y0 * d->out_y + x * 16;
          if (edge == 4)
            winograd_output(from, m_position, bias, operand, to, rows, columns, dilation * d->out_y, dilation * d->res_y,
                            dilation * 16, &ended);
          else
            winograd_strided_output(from, m_position, bias, operand, to, rows, columns, d->out_y, d->res_y, &ended);
        }
        const int count = dilation == 1 ? x1 - x0 : 1;
        for (int y = y0; y < y1; y += dilation)
          for (int x = x0; x < x1; x += dilation == 1 ? count : dilation) {
            if (posts)
              post_row(post, posts, banks, plane + (long)y * d->out_y + x * 16, n, block, y, x, count,
                       block == d->groups * nb - 1 ? d->lanes : 16, 1);
            zero_halo(plane, d->out_y, y, x, count, d->height, d->width, d->top, d->bottom, d->left, d->right);
          }
        tile += run;
      }
    }
  }
}
