// Convolution of blocked tensors (b_fs_yx_fsv16), any kernel, dilation and padding, strides by the instances at hand.
//
// A ticket is a range of chunks by a range of output groups of one image. A chunk is a part of one output row; a group is
// `nb` blocks of 16 output channels. The input carries the zero halo that its
// windows reach into: `inp` points at the window of output pixel (0, 0). A 1x1 kernel on tensors without halo sees the
// plane as one row.
//
// inp, weights, bias, out, res   bias (16 floats a block) and res may be CLGRAPH_NULL
// in_c, in_y, in_x      floats from one channel block, window row, window column to the next
// step_y, step_x        floats from one output row's, output pixel's window to the next
// out_n, out_c, out_y, res_n, res_c, res_y, in_n, in_g   pitches in floats; in_g from one convolution group to the next
// channels              input channels of one convolution group
// kernel_y, kernel_x, stride_y, stride_x, dilation_y, dilation_x    of the window
// skips                 1: elements of windows that lie in the padding for all pixels of a chunk are not read, and `inp` points
//                       at pixel (0, 0), `pad` floats behind the window; pad_y, pad_x, in_height, in_width: rows and pixels
//                       before the input, and of it. A weight that is not finite and meets nothing else then makes no NaN
// band_in, band_out     weights of -0 are not there: other groups' once, whose values that are not finite do not count. Those
//                       beside blocks of so many input and output channels on the diagonal are none, and input channels
//                       without others are left out; 0: all weights are there
// shuffled              the diagonal is that of shuffled channels: of so many equal ranges of channels, first every first
//                       one, then every second one; 1: they stand as they are
// outputs               output channels, read where there are bands
// height, width         of the output;  top, bottom, left, right: its halo
// blocks                output blocks in all: the last group may have fewer than nb
// groups, group_groups  output groups in all and in one convolution group;  lanes: channels of the last block
// chunks, row_chunks, ticket_chunks, ticket_groups   chunks in all, in one row, in one ticket; groups of one ticket
// chunk_width           pixels of every chunk but a row's last; 0: about equal parts
// spans, batch_tickets  tickets side by side over the chunks, tickets of one image
// channel_major         1: neighbouring tickets are parts of one output group (weights stay), 0: of one strip
// widths, ids_0, ids_1  nibble n: the widest instance not wider than n; byte n: its id (n < 8, n >= 8)
// last_widths, last_ids_0, last_ids_1   the same of the last group, which may have fewer channels
// lines, distance       cache lines a (block, ky, kx) prefetched, so many floats behind a group's weights; 0: none
// weight_group          floats of one group's weights;  weight_ahead: floats of them that one chunk prefetches
// far                   1: what is read and written comes from beyond the core's own cache and is fetched ahead
// low .. stepped   the end of the sums, after the residual: float_end.clh
//
// Error as in micro_conv.cl. Post-operations follow on each chunk.
#include "conv_chunks.clh"
#include "float_end.clh"
#include "fsv16.clh"

// List the input channels that the output channels from `first` on, before `last`, do not multiply by zeros, as
// micro_conv.cl wants them; return the number of runs.
static int conv_parts(__global const conv_fsv16_desc* d, const int first, const int last, __global int* parts) {
  const int low = first / d->band_out * d->band_in, high = ((last - 1) / d->band_out + 1) * d->band_in;
  const int ranges = d->shuffled, each = d->channels / ranges, block = d->kernel_y * d->kernel_x * 16, row = d->nb * 16;
  int count = 0;
  for (int r = 0; r < ranges; r++) {
    const int end = r * each + (high - r + ranges - 1) / ranges;
    for (int c = r * each + (low - r + ranges - 1) / ranges; c < end; count++) {
      const int run = min(16 - c % 16, end - c);
      parts[3 * count] = c / 16 * d->in_c + c % 16;
      parts[3 * count + 1] = (c / 16 * block + c % 16) * row;
      parts[3 * count + 2] = run;
      c += run;
    }
  }
  return count;
}

// List the elements of the window, of each block of input channels, that some of `wide` pixels from (y, x) on find in the
// input and not in its padding, as micro_conv.cl wants them; return the number of runs.
static int conv_present(__global const conv_fsv16_desc* d, const int y, const int x, const int wide, __global int* parts) {
  const int top = y * d->stride_y - d->pad_y, left = x * d->stride_x - d->pad_x, right = left + (wide - 1) * d->stride_x;
  const int row = d->nb * 16, taps = d->kernel_y * d->kernel_x;
  int count = 0;
  for (int c = 0; c < d->channels; c += 16)
    for (int ky = 0; ky < d->kernel_y; ky++) {
      const int at = top + ky * d->dilation_y;
      if (at < 0 || at >= d->in_height) continue;
      for (int kx = 0; kx < d->kernel_x; kx++) {
        if (right + kx * d->dilation_x < 0 || left + kx * d->dilation_x >= d->in_width) continue;
        parts[3 * count] = c / 16 * d->in_c + ky * d->in_y + kx * d->in_x - d->pad;
        parts[3 * count + 1] = (c * taps + (ky * d->kernel_x + kx) * 16) * row;
        parts[3 * count++ + 2] = min(16, d->channels - c);
      }
    }
  return count;
}

// Compute what micro_conv.cl has left, which is not finite: `wide` pixels of `nb` blocks of the `runs` that are listed,
// without the weights that are not there; `last` lanes of the last block have channels.
NOINLINE static void conv_apart(__global const conv_fsv16_desc* d, __global const float* ip, __global const float* wp,
                                __global const float* bias, __global const float* res, __global float* op, const int nb,
                                const int last, const int wide, const int runs, __global const int* parts,
                                const float_end* end) {
  const int taps = d->skips ? 1 : d->kernel_y * d->kernel_x;
  const int16 apart = (int16)(d->band_out ? -1 : 0);
  const int16 lane = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  for (int b = 0; b < nb; b++)
    for (int i = 0; i < wide; i++) {
      float16 sum = bias ? LOAD16(bias + b * 16) : (float16)(0.0f);
      for (int r = 0; r < runs; r++)
        for (int tap = 0; tap < taps; tap++) {
          const int y = tap / d->kernel_x, x = tap - y * d->kernel_x;
          __global const float* pixel = ip + parts[3 * r] + y * d->in_y + x * d->in_x + (long)i * d->step_x;
          __global const float* w = wp + parts[3 * r + 1] + (long)tap * 16 * d->nb * 16 + b * 16;
          for (int k = 0; k < parts[3 * r + 2]; k++) {
            const float16 by = LOAD16(w + k * d->nb * 16);
            sum = select(fma((float16)(pixel[k]), by, sum), sum, apart & (as_int16(by) == (int16)(0x80000000)));
          }
        }
      if (b == nb - 1) sum = select((float16)(0.0f), sum, lane < (int16)(last));
      if (res) sum += LOAD16(res + (long)b * d->res_c + i * 16);
      float16 ended[1] = {sum};
      END_REGISTERS(ended, 1, end)
      STORE16(op + (long)b * d->out_c + i * 16, ended[0]);
    }
}

static void conv_fsv16(__global const conv_fsv16_desc* d, __global char** banks, __global char* scratch,
                       const int ticket, __global const post_step* post, const int posts) {
  const int n = ticket / d->batch_tickets, within = ticket - n * d->batch_tickets;
  const int tiers = d->batch_tickets / d->spans;
  const int tier = d->channel_major ? within / d->spans : within % tiers;
  const int span = d->channel_major ? within - tier * d->spans : within / tiers;
  const int last_group = min((tier + 1) * d->ticket_groups, d->groups);
  const int first_chunk = span * d->ticket_chunks, last_chunk = min(first_chunk + d->ticket_chunks, d->chunks);
  const int row_chunks = d->row_chunks, width = d->width;
  // Where operations follow, what they read is still in the first-level cache; what is listed is so for one chunk.
  const int most_alike = d->band_out || d->skips ? 1 : posts ? 4 : last_chunk - first_chunk;

  const float_end end = FLOAT_END_OF(d);
  __global const float* weights = AT(const float, banks, d->weights);
  for (int g = tier * d->ticket_groups; g < last_group; g++) {
    const int block = g * d->nb, nb = min(d->nb, d->blocks - block);
    int channels = d->channels;
    __global int* parts = d->band_out || d->skips ? (__global int*)scratch : 0;
    if (d->band_out) channels = conv_parts(d, block * 16, min((block + nb) * 16, d->outputs), parts);
    __global const float* in = AT(const float, banks, d->inp) + (long)n * d->in_n + (long)(g / d->group_groups) * d->in_g;
    __global const float *bias = 0, *res = 0;
    if (d->bias != CLGRAPH_NULL) bias = AT(const float, banks, d->bias) + block * 16;
    if (d->res != CLGRAPH_NULL) res = AT(const float, banks, d->res) + (long)n * d->res_n + (long)block * d->res_c;
    __global float* out = AT(float, banks, d->out) + (long)n * d->out_n + (long)block * d->out_c;
    __global const float* wp = weights + (long)g * d->weight_group;
    __global const float* ahead = g + 1 < d->groups ? wp + d->distance : wp;
    // The groups after a ticket's first find its pixels near.
    const int near = d->far * (g == tier * d->ticket_groups ? 2 : 1);
    const bool last = g == d->groups - 1;
    const long widths = last ? d->last_widths : d->widths;
    const long ids_0 = last ? d->last_ids_0 : d->ids_0, ids_1 = last ? d->last_ids_1 : d->ids_1;
    for (int chunk = first_chunk; chunk < last_chunk;) {
      const int y = chunk / row_chunks, part = chunk - y * row_chunks, row_end = min(row_chunks, part + last_chunk - chunk);
      const int x0 = chunk_start(part, row_chunks, d->chunk_width, width);
      chunk_run run = chunks_alike(x0, chunk_start(row_end, row_chunks, d->chunk_width, width), row_chunks, d->chunk_width,
                                   width);
      run.count = min(run.count, most_alike);
      const int pixels = run.width * run.count;
      // Whole rows of few chunks: their register blocks below one another are a call, else those beside one another.
      const int whole = run.count == row_chunks ? (last_chunk - chunk) / row_chunks : 1;
      const int rows = whole > run.count ? min(whole, max(1, most_alike / row_chunks)) : 1, columns = rows > 1 ? run.count : 1;
      const int count = rows > 1 ? rows : run.count, beside = rows > 1 ? 0 : run.width;
      const int in_step = beside ? beside * d->step_x : d->step_y, out_step = beside ? beside * 16 : d->out_y;
      for (int column = 0; column < columns; column++)
        for (int at = 0; at < run.width;) {
          const int most = min(run.width - at, 15), wide = (int)(widths >> (4 * most)) & 15;
          const int id = (int)((wide < 8 ? ids_0 : ids_1) >> (8 * (wide & 7))) & 255, x = x0 + column * run.width + at;
          __global const float* pixel = in + (long)y * d->step_y + (long)x * d->step_x;
          __global const float* operand = res ? res + (long)y * d->res_y + x * 16 : 0;
          __global float* to = out + (long)y * d->out_y + x * 16;
          if (d->skips) channels = conv_present(d, y, x, wide, parts);
          if (micro_conv(id, pixel, wp, bias, operand, to, nb, channels, parts, d->skips ? 1 : d->kernel_y,
                         d->skips ? 1 : d->kernel_x, d->in_c, d->in_y, d->in_x, d->step_x, d->out_c, d->res_c, count, in_step,
                         out_step, beside ? beside * 16 : d->res_y, &end, near,
                         ahead + (long)column * rows * d->weight_ahead, d->lines))
            conv_apart(d, pixel, wp, bias, operand, to, nb, block + nb == d->blocks ? d->lanes : 16, wide, channels, parts, &end);
          at += wide;
        }
      chunk += rows * run.count;
      ahead += (long)rows * run.count * d->weight_ahead;
      for (int b = 0; b < nb; b++) {
        __global float* plane = out + (long)b * d->out_c;
        for (int r = y; posts && r < y + rows; r++)
          post_row(post, posts, banks, plane + (long)r * d->out_y + x0 * 16, n, block + b, r, x0, pixels,
                   block + b == d->blocks - 1 ? d->lanes : 16, 1);
        if (pixels == width)
          zero_halo_rows(plane, d->out_y, y, rows, d->height, width, d->top, d->bottom, d->left, d->right);
        else
          zero_halo(plane, d->out_y, y, x0, pixels, d->height, width, d->top, d->bottom, d->left, d->right);
      }
    }
  }
}
