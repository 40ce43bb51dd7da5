// Prints a script with which a shell completes commands and their options.
import { Argument, type Command } from 'commander'
import { type Add, examplesText } from './command.ts'

/** A command, such as `client create`, and what may follow it, with what that does. */
interface Place {
  readonly path: readonly string[]
  readonly commands: readonly string[]
  readonly words: readonly (readonly [word: string, meaning: string])[]
}

const placesOf = (command: Command, path: readonly string[] = []): Place[] => {
  const help = command.createHelp()
  const commands = command.commands.map(one => [one.name(), one.description()] as const)
  const options = [...help.visibleOptions(command), ...help.visibleGlobalOptions(command)]
  const words = [...commands, ...options.map(one => [one.long ?? one.flags, one.description] as const)]
  const below = command.commands.flatMap(one => placesOf(one, [...path, one.name()]))
  return [{ path, commands: commands.map(([name]) => name), words }, ...below]
}

/** `path` is a special variable of zsh. */
const bash = (places: readonly Place[]): string => `_portaria() {
  local at= word offered=
  for word in "\${COMP_WORDS[@]:1:$((COMP_CWORD - 1))}"; do
    case "\${at:+$at }$word" in
      ${places.flatMap(({ path }) => (path.length > 0 ? [`'${path.join(' ')}'`] : [])).join('|')}) at="\${at:+$at }$word" ;;
    esac
  done
  case $at in
${places.map(({ path, words }) => `    '${path.join(' ')}') offered='${words.map(([word]) => word).join(' ')}' ;;`).join('\n')}
  esac
  COMPREPLY=($(compgen -W "$offered" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _portaria portaria`

const zsh = (places: readonly Place[]): string =>
  `autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n${bash(places)}`

const fish = (places: readonly Place[]): string =>
  places
    .flatMap(({ path, commands, words }) => {
      // Where a command is expected, no file is.
      const files = commands.length > 0 ? '-f ' : ''
      const seen = path.map(word => `__fish_seen_subcommand_from ${word}`)
      if (commands.length > 0) seen.push(`not __fish_seen_subcommand_from ${commands.join(' ')}`)
      return words.map(([word, meaning]) => {
        const text = meaning.replaceAll(/[\\']/g, '\\$&')
        return `complete -c portaria -n '${seen.join('; and ')}' ${files}-a '${word}' -d '${text}'`
      })
    })
    .join('\n')

const SHELLS: Readonly<Record<string, (places: readonly Place[]) => string>> = { bash, zsh, fish }

export const addCompletion: Add = (program, _, cli) => {
  program
    .command('completion')
    .description('print a script with which a shell completes commands and options')
    .addArgument(new Argument('<shell>').choices(Object.keys(SHELLS)))
    .addHelpText('after', examplesText(['completion bash > ~/.local/share/bash-completion/completions/portaria']))
    .action((shell: string) => void cli.stdout.write(`${SHELLS[shell]?.(placesOf(program))}\n`))
}
